// Anti-pattern 4: the key is optional, so the client that forgets it is the client that charges
// twice. Here a call without a key never reaches the handler.
#include <atomic>

#include "tests/antipatterns/stack.h"

namespace idempotency::internal::testing {
namespace {

class OptionalKeys : public AntiPattern {};

TEST_P(OptionalKeys, ACallWithoutAKeyNeverReachesTheHandler) {
  std::atomic<int> runs{0};
  ProbeServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply&) {
    ++runs;
    return grpc::Status::OK;
  });
  const ProbeClient client(server.address());

  const Outcome refused = client.Send(Call());
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.reason(), Reason::kKeyMissing);
  EXPECT_EQ(runs, 0);

  // A method without side effects requires no key.
  Call look;
  look.method = "Look";
  EXPECT_TRUE(client.Send(look).status.ok());
  EXPECT_EQ(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, OptionalKeys, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
