// Anti-pattern 9: the store is unavailable, and the call runs unprotected or fails with an error
// that gives the caller no remedy. Here it does not run, and the answer has a reason and a retry
// delay.
#include <atomic>

#include "grpc_idempotency/grpc_status.h"
#include "tests/antipatterns/stack.h"

namespace idempotency::internal::testing {
namespace {

class VagueStoreFailures : public AntiPattern {};

TEST_P(VagueStoreFailures, WithoutTheStoreNothingRuns) {
  std::atomic<int> runs{0};
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
        reply.set_total(++runs);
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        options.guard.verdict_timeout = GuardOptions().verdict_timeout;
      });
  const ProbeClient client(server.address());
  ASSERT_TRUE(client.Act("order-1").status.ok());

  daemon_.Kill();
  const Outcome refused = client.Act("order-2");
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.reason(), Reason::kStoreUnavailable);
  EXPECT_TRUE(DetailsOf(FromGrpcStatus(refused.status)).retry_delay.has_value());
  EXPECT_NE(refused.Trailer("grpc-retry-pushback-ms"), "");
  EXPECT_EQ(runs, 1);

  daemon_.Restart();
  Call call;
  call.keys = {"order-2"};
  EXPECT_TRUE(client.SendUntilSettled(call, std::chrono::seconds(20)).status.ok());
  EXPECT_EQ(runs, 2);
}

INSTANTIATE_TEST_SUITE_P(BothApis, VagueStoreFailures,
                         ::testing::Values(Api::kSync, Api::kCallback), ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
