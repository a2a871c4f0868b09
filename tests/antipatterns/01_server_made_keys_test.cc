// Anti-pattern 1: the server makes the key. A retry then has another key, and runs again. Here the
// client interceptor makes it, and gRPC's own retries keep it.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpc_idempotency/client_interceptor/client_interceptor.h"
#include "grpc_idempotency/client_interceptor/retry_policy.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "tests/antipatterns/stack.h"

namespace idempotency::internal::testing {
namespace {

class ServerMadeKeys : public AntiPattern {
 protected:
  // A client as users configure it: with the interceptor, and gRPC's own retries.
  static std::unique_ptr<Probe::Stub> Client(const ProbeServer& server) {
    std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
        interceptors;
    interceptors.push_back(MakeClientInterceptor());
    return Probe::NewStub(grpc::experimental::CreateCustomChannelWithInterceptors(
        server.address(), grpc::InsecureChannelCredentials(),
        RetryingChannelArguments({}, {"idempotency.testing.Probe"}), std::move(interceptors)));
  }
};

TEST_P(ServerMadeKeys, ARetryCarriesTheKeyOfTheFirstTry) {
  Mutex mutex;
  std::vector<std::pair<std::string, std::uint32_t>> runs;
  ProbeServer& server =
      Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        Execution* execution = Execution::FromContext(&context);
        MutexLock lock(mutex);
        runs.emplace_back(execution->record_id(), execution->attempt());
        if (runs.size() < 3) {
          execution->MarkNoEffect();
          return grpc::Status(grpc::StatusCode::UNAVAILABLE, "try again");
        }
        reply.set_effect("done");
        return grpc::Status::OK;
      });

  grpc::ClientContext context;
  ActReply reply;
  const grpc::Status status = Client(server)->Act(&context, ActRequest(), &reply);

  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(reply.effect(), "done");
  ASSERT_EQ(runs.size(), 3);
  // One record, three attempts: three records would mean three keys.
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(runs[i].first, runs[0].first);
    EXPECT_EQ(runs[i].second, i + 1);
  }
}

TEST_P(ServerMadeKeys, AKeyThatTheCallerPinnedIsKept) {
  std::atomic<int> runs{0};
  ProbeServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
    reply.set_total(++runs);
    return grpc::Status::OK;
  });
  // The same operation by two processes, each with its own channel.
  for (int process = 0; process < 2; ++process) {
    grpc::ClientContext context;
    ASSERT_TRUE(WithKey(context, "order-1").ok());
    ActReply reply;
    const grpc::Status status = Client(server)->Act(&context, ActRequest(), &reply);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(reply.total(), 1);
  }
  EXPECT_EQ(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, ServerMadeKeys, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
