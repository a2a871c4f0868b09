#ifndef IDEMPOTENCY_BENCH_WAIT_WORKLOAD_H_
#define IDEMPOTENCY_BENCH_WAIT_WORKLOAD_H_

#include <memory>
#include <string>

#include "bench/record_requests.h"
#include "bench/workload.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal::bench {

// A first call and a duplicate that arrives while it runs: Reserve, a second Reserve that waits,
// Complete. Ends when the duplicate has the reply.
class WaitWorkload final : public Workload {
 public:
  // Both must outlive it.
  WaitWorkload(Connection& connection, const RecordRequests& requests)
      : connection_(connection), requests_(requests) {}

  void Start(std::uint64_t number, Done done) override;

 private:
  struct Pair;

  void SendDuplicate(std::shared_ptr<Pair> pair, const std::string& token);

  Connection& connection_;
  const RecordRequests& requests_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_WAIT_WORKLOAD_H_
