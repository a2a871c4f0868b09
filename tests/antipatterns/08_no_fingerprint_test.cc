// Anti-pattern 8: the key alone decides, so a reused key answers a request with
// another request's reply. Here the request's fingerprint is compared.
#include <atomic>
#include <thread>

#include "tests/antipatterns/stack.h"
#include "tests/support/gate.h"

namespace idempotency::internal::testing {
namespace {

class NoFingerprint : public AntiPattern {};

TEST_P(NoFingerprint, AnotherRequestWithTheSameKeyNeitherRunsNorReplays) {
  std::atomic<int> runs{0};
  ProbeServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
    reply.set_total(++runs);
    return grpc::Status::OK;
  });
  const ProbeClient client(server.address());
  const Outcome first = client.Act("order-1", 500);
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();

  const Outcome other = client.Act("order-1", 900);
  EXPECT_EQ(other.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(other.reason(), Reason::kKeyReused);
  EXPECT_EQ(other.body, "");
  EXPECT_EQ(runs, 1);

  const Outcome again = client.Act("order-1", 500);
  EXPECT_EQ(again.body, first.body);
  EXPECT_TRUE(again.replayed());
}

TEST_P(NoFingerprint, NorDoesItWaitForTheOther) {
  Gate gate;
  ProbeServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply&) {
    gate.Enter();
    return grpc::Status::OK;
  });
  const ProbeClient client(server.address());
  std::thread running([&] { EXPECT_TRUE(client.Act("order-1", 500).status.ok()); });
  EXPECT_TRUE(gate.AwaitInside(1));
  EXPECT_EQ(client.Act("order-1", 900).reason(), Reason::kKeyReused);
  gate.Open();
  running.join();
  EXPECT_EQ(gate.inside(), 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, NoFingerprint, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
