#ifndef IDEMPOTENCY_SERVER_TESTING_COUNTING_OBSERVER_H_
#define IDEMPOTENCY_SERVER_TESTING_COUNTING_OBSERVER_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string_view>

#include "absl/time/time.h"

#include "core/mutex.h"
#include "server/observability/observer.h"

namespace idempotency::internal {

// Counts the events that it receives, and waits for counts. Thread-safe.
class CountingObserver final : public Observer {
 public:
  struct Counts {
    std::size_t rpcs = 0;
    std::size_t failed_rpcs = 0;
    std::size_t verdicts = 0;
    std::size_t mismatches = 0;
    std::size_t sessions = 0;
    std::size_t frames_received = 0;
    std::size_t frames_sent = 0;
    std::size_t batches = 0;
    std::size_t queued = 0;
    // By the queue; by a bound of callers.
    std::size_t shed = 0;
    std::size_t shed_of_callers = 0;
    std::size_t overdue = 0;
    std::size_t store_failures = 0;
    std::size_t reservations_lost = 0;
    std::size_t lease_overruns = 0;
    std::size_t take_overs = 0;
    std::size_t marked_unknown = 0;
    std::size_t retries_after_expiry = 0;
    std::size_t repeated_grants = 0;
    std::size_t relaxed_grants = 0;
    std::size_t callers_left = 0;
    std::size_t waiters = 0;
    std::size_t inspections = 0;
    std::size_t swept = 0;
    std::size_t most_held = 0;
    // At the store, all batches together.
    absl::Duration batch_time;
  };

  Counts counts() const {
    MutexLock lock(mutex_);
    return counts_;
  }
  // True once `field` is `value`; false after 20 s.
  bool Await(std::size_t Counts::*field, std::size_t value) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (counts_.*field != value && changed_.WaitUntil(lock, deadline)) {
    }
    return counts_.*field == value;
  }

  bool AwaitAtLeast(std::size_t Counts::*field, std::size_t value) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (counts_.*field < value && changed_.WaitUntil(lock, deadline)) {
    }
    return counts_.*field >= value;
  }

  void RpcFinished(OperationKind, const absl::Status& status, absl::Duration) override {
    Add(&Counts::rpcs);
    if (!status.ok()) Add(&Counts::failed_rpcs);
  }
  void VerdictGiven(const Verdict&) override { Add(&Counts::verdicts); }
  void MismatchSeen(std::string_view, std::string_view, const RecordId&) override {
    Add(&Counts::mismatches);
  }
  void SessionsChanged(std::size_t sessions) override { Set(&Counts::sessions, sessions); }
  void FrameReceived(std::size_t) override { Add(&Counts::frames_received); }
  void FrameSent() override { Add(&Counts::frames_sent); }
  void BatchDone(OperationKind, std::size_t, absl::Duration took) override {
    MutexLock lock(mutex_);
    ++counts_.batches;
    counts_.batch_time += took;
    changed_.NotifyAll();
  }
  void QueueDepthChanged(std::size_t operations) override { Set(&Counts::queued, operations); }
  void OperationShed(OperationKind, ShedReason reason) override {
    Add(reason == ShedReason::kQueue ? &Counts::shed : &Counts::shed_of_callers);
  }
  void OperationOverdue(OperationKind) override { Add(&Counts::overdue); }
  void StoreFailed(OperationKind, const RecordId&, const absl::Status&) override {
    Add(&Counts::store_failures);
  }
  void ReservationLost(OperationKind) override { Add(&Counts::reservations_lost); }
  void LeaseOverrun() override { Add(&Counts::lease_overruns); }
  void TookOver() override { Add(&Counts::take_overs); }
  void MarkedUnknown() override { Add(&Counts::marked_unknown); }
  void RetriedAfterExpiry() override { Add(&Counts::retries_after_expiry); }
  void GrantRepeated() override { Add(&Counts::repeated_grants); }
  void GrantRelaxed() override { Add(&Counts::relaxed_grants); }
  void MemoryHeldChanged(std::size_t bytes) override {
    MutexLock lock(mutex_);
    counts_.most_held = std::max(counts_.most_held, bytes);
  }
  void CallerLeft() override { Add(&Counts::callers_left); }
  void WaitersChanged(std::size_t waiters) override { Set(&Counts::waiters, waiters); }
  void StoreInspected(const absl::StatusOr<StoreGauges>&) override { Add(&Counts::inspections); }
  void SweepStepDone(const absl::StatusOr<SweepProgress>& step, absl::Duration) override {
    for (std::int64_t i = 0; step.ok() && i < step->removed; ++i) Add(&Counts::swept);
  }

 private:
  void Add(std::size_t Counts::*field) {
    MutexLock lock(mutex_);
    ++(counts_.*field);
    changed_.NotifyAll();
  }
  void Set(std::size_t Counts::*field, std::size_t value) {
    MutexLock lock(mutex_);
    counts_.*field = value;
    changed_.NotifyAll();
  }

  mutable Mutex mutex_;
  CondVar changed_;
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TESTING_COUNTING_OBSERVER_H_
