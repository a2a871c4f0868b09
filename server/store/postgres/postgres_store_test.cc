// The behaviour of Postgres alone; tests/conformance tests the table of verdicts.
#include "server/store/postgres/postgres_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/testing/store_fixture.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(PostgresStoreTest, EveryCompletionIsHot) {
  constexpr int kRecords = 3000;
  constexpr int kBatch = 100;
  std::vector<CompleteOp> completions;
  for (int done = 0; done < kRecords; done += kBatch) {
    std::vector<ReserveOp> ops;
    for (int i = 0; i < kBatch; ++i) {
      // Both kinds of id.
      ops.push_back(OpFor(i % 2 == 0 ? Uuid::TimeOrdered(absl::Now()).ToString()
                                     : absl::StrCat("key-", done + i)));
      if (i % 10 == 0) ops.back().reply_retention = absl::Hours(1);
      if (i % 10 == 0) ops.back().tombstone = absl::Hours(1);
    }
    const SharedAnswers answers = store_->CompleteAndReserve(completions, ops);
    for (const auto& completion : answers.completions) ASSERT_TRUE(completion.ok());
    completions.clear();
    for (int i = 0; i < kBatch; ++i) {
      completions.push_back(CompletionOf(ops[i], answers.verdicts[i]));
    }
  }
  for (const auto& completion : store_->Complete(completions)) ASSERT_TRUE(completion.ok());
  // Connections write their counts when they end.
  store_.reset();
  const std::string counts = absl::StrCat(
      "SELECT n_tup_upd || '/' || n_tup_hot_upd FROM pg_stat_all_tables"
      " WHERE relname = 'records' AND schemaname = '",
      schema_->options().schema, "'");
  EXPECT_TRUE(Await(counts, "3000/3000")) << schema_->Value(counts);
}

TEST_F(PostgresStoreTest, CompletionsAndNewReservationsShareOneCommit) {
  const std::vector<ReserveOp> running = {OpFor("one"), OpFor("two")};
  const auto verdicts = store_->Reserve(running);
  const std::vector<CompleteOp> completions = {CompletionOf(running[0], verdicts[0]),
                                               CompletionOf(running[1], verdicts[1])};
  const std::vector<ReserveOp> fresh = {OpFor("three"), OpFor("four"), OpFor("five")};
  const SharedAnswers answers = store_->CompleteAndReserve(completions, fresh);
  for (const auto& completion : answers.completions) EXPECT_TRUE(completion.ok());
  for (const auto& verdict : answers.verdicts) EXPECT_TRUE(verdict.ok());
  EXPECT_EQ(schema_->Value("SELECT count(*) || '/' || count(DISTINCT xmin::text) FROM records"),
            "5/1");
}

// One statement for the replies that are small, one for the others; together they read as many as
// one would.
TEST_F(PostgresStoreTest, LargeRepliesAreReadBesideSmallOnes) {
  const std::string large(limits::kMaxBatchReplyBytes / 2 - 1024, 'l');
  std::vector<ReserveOp> ops;
  std::vector<std::string> bodies;
  for (int i = 0; i < 8; ++i) {
    ops.push_back(OpFor(absl::StrCat(i)));
    bodies.push_back(i % 2 == 0 ? absl::StrCat("small ", i) : large);
    CompleteOp done = CompletionOf(ops.back(), Reserve(ops.back()));
    done.reply = ReplyWith(bodies.back());
    ASSERT_TRUE(Complete(done).ok());
    ops.back().request_token = Uuid::Random();
  }
  ops.push_back(OpFor("running"));
  ASSERT_TRUE(Reserve(ops.back()).ok());
  ops.back().request_token = Uuid::Random();
  ops.push_back(OpFor("new"));
  const auto verdicts = store_->Reserve(ops);
  int left = 0;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    if (!verdicts[i].ok()) {
      EXPECT_EQ(ReasonOf(verdicts[i].status()), Reason::kOverloaded) << verdicts[i].status();
      EXPECT_TRUE(bodies[i] == large) << i;
      ++left;
      continue;
    }
    const auto* const replay = std::get_if<Replay>(&*verdicts[i]);
    ASSERT_NE(replay, nullptr) << i;
    EXPECT_TRUE(replay->reply == ReplyWith(bodies[i])) << i;
  }
  EXPECT_EQ(left, 1) << "of four, the first three reach the limit";
  ASSERT_TRUE(verdicts[8].ok());
  EXPECT_TRUE(std::holds_alternative<InFlight>(*verdicts[8]));
  ASSERT_TRUE(verdicts[9].ok());
  EXPECT_TRUE(std::holds_alternative<Reserved>(*verdicts[9]));
}

TEST_F(PostgresStoreTest, OneReplyAloneMayHaveAnySize) {
  const std::string body(limits::kMaxBatchReplyBytes + 1, 'l');
  ReserveOp op = OpFor("large");
  CompleteOp done = CompletionOf(op, Reserve(op));
  done.reply = ReplyWith(body);
  ASSERT_TRUE(Complete(done).ok());
  op.request_token = Uuid::Random();
  ReserveOp other = OpFor("other");
  for (const std::vector<ReserveOp>& ops :
       {std::vector<ReserveOp>{op}, std::vector<ReserveOp>{op, other}}) {
    const auto verdicts = store_->Reserve(ops);
    ASSERT_TRUE(verdicts[0].ok()) << verdicts[0].status();
    const auto* const replay = std::get_if<Replay>(&*verdicts[0]);
    ASSERT_NE(replay, nullptr);
    EXPECT_TRUE(replay->reply == ReplyWith(body));
  }
}

TEST_F(PostgresStoreTest, OneUnstorableOperationFailsAlone) {
  std::vector<ReserveOp> ops = {OpFor("one"), OpFor("two"), OpFor("three")};
  ops[1].key.scope = std::string("nul\0secret", 10);
  const auto verdicts = store_->Reserve(ops);
  EXPECT_TRUE(verdicts[0].ok()) << verdicts[0].status();
  EXPECT_EQ(ReasonOf(verdicts[1].status()), Reason::kRequestInvalid);
  EXPECT_TRUE(verdicts[2].ok()) << verdicts[2].status();
  EXPECT_TRUE(Complete(CompletionOf(ops[0], verdicts[0])).ok());
}

TEST_F(PostgresStoreTest, OneUnstorableReservationFailsAloneAlsoBesideCompletions) {
  const ReserveOp running = OpFor("zero");
  const CompleteOp completion = CompletionOf(running, Reserve(running));
  std::vector<ReserveOp> ops = {OpFor("one"), OpFor("two"), OpFor("three")};
  ops[1].key.scope = std::string("nul\0secret", 10);
  const SharedAnswers answers = store_->CompleteAndReserve({&completion, 1}, ops);
  EXPECT_TRUE(answers.completions[0].ok()) << answers.completions[0].status();
  EXPECT_TRUE(answers.verdicts[0].ok()) << answers.verdicts[0].status();
  EXPECT_EQ(ReasonOf(answers.verdicts[1].status()), Reason::kRequestInvalid);
  EXPECT_TRUE(answers.verdicts[2].ok()) << answers.verdicts[2].status();
}

TEST_F(PostgresStoreTest, ErrorsHoldNoSqlAndNoParameters) {
  const ReserveOp op = OpFor("visible-key");
  ASSERT_TRUE(Reserve(op).ok());
  ASSERT_TRUE(schema_->Execute("ALTER TABLE records RENAME TO elsewhere").ok());
  store_ = *PostgresStore::Create(schema_->options());
  for (const absl::Status& status :
       {Reserve(op).status(), Complete({op.key, op.id, Uuid::Random(), {}}).status(),
        store_->Sweep({}).status(), store_->Inspect().status()}) {
    EXPECT_EQ(ReasonOf(status), Reason::kStoreUnavailable);
    for (const char* leak : {"records", "SELECT", "INSERT", "UPDATE", "relation", "visible-key"}) {
      EXPECT_THAT(status.ToString(), Not(HasSubstr(leak)));
    }
  }
}

TEST_F(PostgresStoreTest, OneReplicaSweepsAtATime) {
  const std::string lock = absl::StrCat(
      "SELECT pg_advisory_lock(hashtextextended('idempotency "
      "sweep ",
      schema_->options().schema, "', 0))");
  ASSERT_TRUE(schema_->Execute(lock).ok());
  EXPECT_TRUE(store_->Sweep({})->elsewhere);
  ASSERT_TRUE(schema_->Execute("SELECT pg_advisory_unlock_all()").ok());
  EXPECT_FALSE(store_->Sweep({})->elsewhere);
}

TEST_F(PostgresStoreTest, TheServerIsConfiguredToDetectALostClient) {
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM pg_settings WHERE source = 'session' AND name IN"
                           " ('tcp_keepalives_idle', 'tcp_keepalives_interval',"
                           " 'tcp_keepalives_count', 'tcp_user_timeout',"
                           " 'idle_in_transaction_session_timeout', 'lock_timeout')"),
            "6");
}

}  // namespace
}  // namespace idempotency::internal
