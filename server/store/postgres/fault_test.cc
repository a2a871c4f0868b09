// A server that crashes, stalls, has a statement wait, or has other defaults.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"
#include "server/store/postgres/testing/server_fixture.h"

namespace idempotency::internal {
namespace {

TEST_F(PostgresFaultTest, AcknowledgedWorkSurvivesACrashAndThePoolHeals) {
  const ReserveOp done = OpFor("done");
  ASSERT_TRUE(Complete(CompletionOf(done, Reserve(done))).ok());
  const ReserveOp open = OpFor("open");
  const auto granted = Reserve(open);
  ASSERT_TRUE(granted.ok());

  ASSERT_TRUE(cluster_->StopImmediate().ok());
  EXPECT_EQ(ReasonOf(Reserve(open).status()), Reason::kStoreUnavailable);
  EXPECT_GE(store_->connections().broken, 1);
  ASSERT_TRUE(cluster_->Start().ok());

  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  absl::StatusOr<Verdict> again = Reserve(open);
  while (!again.ok() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    again = Reserve(open);
  }
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE(std::holds_alternative<Reserved>(*again));
  EXPECT_TRUE(std::get<Reserved>(*again).repeated) << "the same request token, the same grant";
  EXPECT_EQ(std::get<Reserved>(*again).token, std::get<Reserved>(*granted).token);
  EXPECT_TRUE(std::holds_alternative<Replay>(*Reserve(done)));
  EXPECT_EQ(store_->connections().broken, 0);
}

TEST_F(PostgresFaultTest, AStalledServerIsAbandonedAndTheCallRepeated) {
  statement_timeout_ = absl::Milliseconds(300);
  Open(cluster_->url());
  const ReserveOp op = OpFor("stalled");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  // The store's only connection; it stands still, and so does its timeout.
  const pid_t backend = std::stoi(
      schema_->Value("SELECT pid FROM pg_stat_activity"
                     " WHERE application_name = 'idempotencyd' AND pid <> pg_backend_pid()"));
  ASSERT_EQ(kill(backend, SIGSTOP), 0);
  EXPECT_EQ(ReasonOf(Complete(completion).status()), Reason::kStoreUnavailable);
  ASSERT_EQ(kill(backend, SIGCONT), 0);
  EXPECT_TRUE(Complete(completion).ok()) << "on another connection, whichever came first";
}

TEST_F(PostgresFaultTest, AStatementThatWaitsForALockIsAbandonedInTime) {
  statement_timeout_ = absl::Milliseconds(300);
  Open(cluster_->url());
  const ReserveOp op = OpFor("locked");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  ASSERT_TRUE(schema_->Execute("BEGIN; SELECT FROM records FOR UPDATE").ok());
  EXPECT_EQ(ReasonOf(Complete(completion).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(store_->connections().broken, 0) << "the connection is as good as before";
  ASSERT_TRUE(schema_->Execute("ROLLBACK").ok());
  // A row that was found locked is not tried for a while.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  absl::Status completed = Complete(completion).status();
  while (!completed.ok() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    completed = Complete(completion).status();
  }
  EXPECT_TRUE(completed.ok()) << completed;
}

TEST_F(PostgresFaultTest, CommitsAreDurableUnderAnyDefaultOfTheDatabase) {
  for (const auto& [given, kept] : {std::pair("off", "on"), std::pair("local", "on"),
                                    std::pair("remote_apply", "remote_apply")}) {
    ASSERT_TRUE(
        schema_->Execute(absl::StrCat("ALTER DATABASE postgres SET synchronous_commit TO ", given))
            .ok());
    Open(cluster_->url());
    EXPECT_EQ(schema_->Value("SHOW synchronous_commit"), kept);
  }
}

}  // namespace
}  // namespace idempotency::internal
