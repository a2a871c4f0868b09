#ifndef IDEMPOTENCY_BENCH_HOT_WAIT_H_
#define IDEMPOTENCY_BENCH_HOT_WAIT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "bench/record_requests.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal::bench {

// One slow execution and many duplicates that wait for it: the time from the acknowledged
// completion until the last of them has the reply.
class HotWait {
 public:
  struct Options {
    int waiters = 64;
    // The duration of the execution: enough for all duplicates to have arrived.
    absl::Duration execution = absl::Milliseconds(300);
  };

  // Both must outlive it.
  HotWait(Connection& connection, const RecordRequests& requests, const Options& options)
      : connection_(connection), requests_(requests), options_(options) {}

  // Runs it once, for the key with this number. Zero if the last waiter was answered before the
  // acknowledgement arrived. The error of any of the calls.
  absl::StatusOr<absl::Duration> Run(std::uint64_t number);

 private:
  class Round;

  Connection& connection_;
  const RecordRequests& requests_;
  const Options options_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_HOT_WAIT_H_
