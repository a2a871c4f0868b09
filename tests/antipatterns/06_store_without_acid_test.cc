// Anti-pattern 6: records are kept in a cache, and are lost with it. Here an acknowledged reply is
// on disk: kill -9 right after it loses nothing.
#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/antipatterns/stack.h"

namespace idempotency::internal::testing {
namespace {

class StoreWithoutAcid : public AntiPattern {};

TEST_P(StoreWithoutAcid, WhatWasAcknowledgedSurvivesKillMinusNine) {
  std::atomic<int> runs{0};
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
        reply.set_total(++runs);
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        // Short, so that a lost completion shows as a second run.
        options.guard.methods[kAct].MutableReplacementPolicy().lease = absl::Seconds(2);
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
    ASSERT_EQ(retry.body, first.body);
    ASSERT_TRUE(retry.replayed());
  }
  EXPECT_EQ(runs, 10);
}

TEST_P(StoreWithoutAcid, NoReplyGoesOutThatTheStoreHasNotAcknowledged) {
  std::atomic<int> runs{0};
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
        // Killed before it can receive the outcome.
        daemon_.Kill();
        reply.set_total(++runs);
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        options.guard.recording_timeout = absl::Milliseconds(200);
      });
  const ProbeClient client(server.address());
  const Outcome first = client.Act("order-1");
  EXPECT_EQ(first.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(first.reason(), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(first.body, "");

  daemon_.Restart();
  Call call;
  call.keys = {"order-1"};
  const Outcome retry = client.SendUntilSettled(call, std::chrono::seconds(20));
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.reply().total(), 1);
  EXPECT_EQ(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, StoreWithoutAcid, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
