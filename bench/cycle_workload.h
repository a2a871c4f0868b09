#ifndef IDEMPOTENCY_BENCH_CYCLE_WORKLOAD_H_
#define IDEMPOTENCY_BENCH_CYCLE_WORKLOAD_H_

#include "bench/record_requests.h"
#include "bench/workload.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal::bench {

// A key's first call, with a handler that takes no time: Reserve, then Complete.
class CycleWorkload final : public Workload {
 public:
  // Both must outlive it.
  CycleWorkload(Connection& connection, const RecordRequests& requests)
      : connection_(connection), requests_(requests) {}

  void Start(std::uint64_t number, Done done) override;

 private:
  struct Cycle;

  Connection& connection_;
  const RecordRequests& requests_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_CYCLE_WORKLOAD_H_
