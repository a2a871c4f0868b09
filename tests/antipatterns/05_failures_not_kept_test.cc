// Anti-pattern 5: only successes are kept, so the retry of a declined charge
// may be accepted. Here deterministic failures are kept like successes.
#include <atomic>
#include <string>

#include "tests/antipatterns/stack.h"

namespace idempotency::internal::testing {
namespace {

class FailuresNotKept : public AntiPattern {};

TEST_P(FailuresNotKept, ADeclineStaysADecline) {
  std::atomic<int> runs{0};
  ProbeServer& server =
      Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        if (++runs > 1) {
          reply.set_effect("charged after all");
          return grpc::Status::OK;
        }
        context.AddTrailingMetadata("decline-code", "51");
        return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "insufficient funds",
                            std::string("details\0of the bank", 19));
      });
  const ProbeClient client(server.address());

  const Outcome declined = client.Act("order-1");
  EXPECT_EQ(declined.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  const Outcome retry = client.Act("order-1");
  EXPECT_EQ(retry.status.error_code(), declined.status.error_code());
  EXPECT_EQ(retry.status.error_message(), "insufficient funds");
  EXPECT_EQ(retry.status.error_details(), std::string("details\0of the bank", 19));
  EXPECT_EQ(retry.Trailer("decline-code"), "51");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, FailuresNotKept, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
