#ifndef IDEMPOTENCY_SERVER_QUEUE_RECORD_SCHEDULE_H_
#define IDEMPOTENCY_SERVER_QUEUE_RECORD_SCHEDULE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

#include "grpc_idempotency/deadline.h"
#include "server/store/record.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// When a record that has in-flight waiters is examined next: it is read after each pause, to detect
// changes by other replicas, and a waiter is tried once the lease of the running attempt is over.
//
// Not thread-safe.
class RecordSchedule {
 public:
  // The minimum interval of queries about an almost expired lease.
  static constexpr absl::Duration kShortestLease = absl::Milliseconds(1);

  // The store's answer at `now`: this attempt runs, or was released with a pause, which then counts
  // as its lease. For an attempt that was not known, the pauses between reads begin with `first`.
  void FollowAttempt(const InFlight& in_flight, SteadyTime now, absl::Duration first);

  // The next read is after the current pause, by `jitter` times. Each pause is twice as long as the
  // one before, up to `longest`.
  void ReadLater(SteadyTime now, double jitter, absl::Duration longest);
  // No try before the next read, also after the lease.
  void DelayTry() { lease_end_ = std::max(lease_end_, next_read_); }

  // Whether the record, as it was read, is still held by the known attempt.
  bool IsHeldIn(const Record& record) const;
  bool LeaseIsOver(SteadyTime now) const { return lease_end_ <= now; }
  // The next read or the end of the lease.
  SteadyTime due() const { return std::min(next_read_, lease_end_); }

  // The verdict for a waiter whose wait is over.
  InFlight StillInFlight(SteadyTime now) const;

 private:
  std::uint32_t attempt_ = 0;
  bool paused_ = false;
  SteadyTime lease_end_;
  // Before the next read, without its jitter.
  absl::Duration pause_;
  SteadyTime next_read_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_RECORD_SCHEDULE_H_
