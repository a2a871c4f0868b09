#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_GUARDED_CLIENT_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_GUARDED_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/chaos/workload/drawn_calls.h"
#include "tests/chaos/workload/history_log.h"
#include "tests/chaos/workload/known_records.h"
#include "tests/support/probe.h"

namespace idempotency::internal::testing {

// Calls guarded servers and logs its requests and their answers. Thread-safe.
class GuardedClient {
 public:
  // The consequence of the answer for retries.
  enum class Answer {
    kSettled,   // every later answer will be the same
    kMismatch,  // the key is another request's
    kOpen,      // retry
  };

  // The servers with the completion ledger come first.
  GuardedClient(std::string name, const std::vector<std::string>& addresses, int with_ledger,
                HistoryLog& log, KnownRecords& known);

  // One try, at `server` modulo the servers that have the method.
  Answer Call(const DrawnCall& call, std::uint64_t server);

 private:
  struct Server {
    std::unique_ptr<Probe::Stub> probe;
    std::unique_ptr<Twin::Stub> twin;
  };

  grpc::Status Send(const DrawnCall& call, Server& server, grpc::ClientContext& context,
                    ActReply& reply);
  Answer Log(const DrawnCall& call, const std::string& id, const grpc::Status& status,
             const grpc::ClientContext& context, const ActReply& reply);

  const std::string name_;
  const std::uint64_t with_ledger_;
  std::vector<Server> servers_;
  HistoryLog& log_;
  KnownRecords& known_;
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_GUARDED_CLIENT_H_
