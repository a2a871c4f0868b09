// Anti-pattern 6: records live in a cache, and go with it. Here a reply that
// was acknowledged is on disk: kill -9 right after it loses nothing.
#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/antipatterns/stack.h"

namespace idempotency::testing {
namespace {

class StoreWithoutAcid : public AntiPattern {};

TEST_P(StoreWithoutAcid, WhatWasAcknowledgedSurvivesKillMinusNine) {
  std::atomic<int> runs{0};
  GuardedServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
    reply.set_total(++runs);
    return grpc::Status::OK;
  });
  const ProbeClient client(server.address());
  for (int i = 0; i < 10; ++i) {
    Call call;
    call.keys = {absl::StrCat("order-", i)};
    const Outcome first = client.SendUntilSettled(call, std::chrono::seconds(20));
    ASSERT_TRUE(first.status.ok()) << first.status.error_message();
    daemon_.Kill();
    daemon_.Restart();
    const Outcome retry = client.SendUntilSettled(call, std::chrono::seconds(20));
    EXPECT_EQ(retry.body, first.body);
    EXPECT_TRUE(retry.replayed());
  }
  EXPECT_EQ(runs, 10);
}

INSTANTIATE_TEST_SUITE_P(BothApis, StoreWithoutAcid, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::testing
