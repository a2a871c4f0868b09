#ifndef IDEMPOTENCY_BENCH_REPLAY_WORKLOAD_H_
#define IDEMPOTENCY_BENCH_REPLAY_WORKLOAD_H_

#include <cstdint>

#include "bench/record_requests.h"
#include "bench/workload.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal::bench {

// A retry of a completed call: Reserve, answered with the reply. Takes the keys 0 to `keys` - 1 in
// an order that jumps, so that neighbours in time are not neighbours in the table.
class ReplayWorkload final : public Workload {
 public:
  // Both must outlive it.
  ReplayWorkload(Connection& connection, const RecordRequests& requests, std::uint64_t keys)
      : connection_(connection), requests_(requests), keys_(keys) {}

  void Start(std::uint64_t number, Done done) override;

 private:
  Connection& connection_;
  const RecordRequests& requests_;
  const std::uint64_t keys_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_REPLAY_WORKLOAD_H_
