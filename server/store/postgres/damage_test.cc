// Rows that this program cannot have written, or that the server cannot read, fail alone.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/testing/store_fixture.h"
#include "tests/support/postgres_cluster.h"

namespace idempotency::internal {
namespace {

// By a program that writes to the table, in a form that this service does not.
TEST_F(PostgresStoreTest, AnOddValueDamagesItsRecordAlone) {
  for (const auto* const odd :
       {"labels = '[1]'", "labels = '{\"team\": 1}'", "expires_at = 'infinity'",
        "tombstone_until = 'infinity'", "reply_until = 'infinity'"}) {
    for (const PostgresStatementMode mode :
         {PostgresStatementMode::kBatched, PostgresStatementMode::kSingleRow}) {
      statements_ = mode;
      Open(testing::TestPostgresUrl());
      std::vector<ReserveOp> ops = {OpFor("odd"), OpFor("other")};
      for (const auto& granted : store_->Reserve(ops)) ASSERT_TRUE(granted.ok());
      ASSERT_TRUE(
          schema_->Execute(absl::StrCat("UPDATE records SET ", odd, " WHERE key = 'odd'")).ok());
      for (ReserveOp& op : ops) op.request_token = Uuid::Random();
      const auto verdicts = store_->Reserve(ops);
      EXPECT_EQ(ReasonOf(verdicts[0].status()), Reason::kRecordDamaged) << odd;
      EXPECT_TRUE(verdicts[1].ok()) << odd << ": " << verdicts[1].status();
      GetOp look;
      look.id = ops[0].id;
      EXPECT_EQ(ReasonOf(store_->Get({&look, 1}).at(0).status()), Reason::kRecordDamaged) << odd;
    }
  }
}

// The chunks of every reply that is stored out of its row. The server protects such tables.
constexpr char kLoseReplies[] = R"sql(
SET allow_system_table_mods = on;
DO $$
DECLARE chunks regclass := (SELECT reltoastrelid FROM pg_class WHERE oid = 'records'::regclass);
BEGIN
  UPDATE pg_class SET relkind = 'r' WHERE oid = chunks;
  EXECUTE format('TRUNCATE %s', chunks);
  UPDATE pg_class SET relkind = 't' WHERE oid = chunks;
END $$;
SET allow_system_table_mods = off
)sql";

class PostgresDamageTest : public PostgresStoreTest,
                           public ::testing::WithParamInterface<PostgresStatementMode> {
 protected:
  void SetUp() override {
    statements_ = GetParam();
    PostgresStoreTest::SetUp();
    Must("ALTER TABLE records ALTER reply SET STORAGE EXTERNAL");
  }
  void Must(const std::string& sql) {
    const auto done = schema_->Execute(sql);
    ASSERT_TRUE(done.ok()) << done.status();
  }
  void Run(const ReserveOp& op) {
    CompleteOp done = CompletionOf(op, Reserve(op));
    done.reply = ReplyWith(std::string(16 * 1024, 'r'));
    ASSERT_TRUE(Complete(done).ok());
  }
  // "damaged", "1" and "2", of which the first has lost its reply.
  std::vector<ReserveOp> RunAll() {
    std::vector<ReserveOp> ops = {OpFor("damaged"), OpFor("1"), OpFor("2")};
    for (ReserveOp& op : ops) {
      op.reply_retention = absl::Hours(1);
      Run(op);
      if (op.key.key == "damaged") Must(kLoseReplies);
      op.request_token = Uuid::Random();
    }
    return ops;
  }
};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresDamageTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         [](const auto& parameter) {
                           return parameter.param == PostgresStatementMode::kBatched ? "Batched"
                                                                                     : "SingleRow";
                         });

TEST_P(PostgresDamageTest, AReplyThatTheServerCannotReadFailsItsRecordAlone) {
  const std::vector<ReserveOp> ops = RunAll();
  const auto verdicts = store_->Reserve(ops);
  EXPECT_EQ(ReasonOf(verdicts[0].status()), Reason::kRecordDamaged) << verdicts[0].status();
  std::vector<GetOp> looks;
  for (const ReserveOp& op : ops) looks.push_back({op.id, op.key, /*confirmed=*/false});
  const auto records = store_->Get(looks);
  EXPECT_EQ(ReasonOf(records[0].status()), Reason::kRecordDamaged) << records[0].status();
  for (const std::size_t i : {1, 2}) {
    ASSERT_TRUE(verdicts[i].ok()) << verdicts[i].status();
    EXPECT_TRUE(std::holds_alternative<Replay>(*verdicts[i]));
    EXPECT_TRUE(records[i].ok()) << records[i].status();
  }
  EXPECT_EQ(store_->connections().broken, 0);
}

TEST_P(PostgresDamageTest, AReplyThatTheServerCannotReadDoesNotStopTheSweep) {
  RunAll();
  Must("UPDATE records SET reply_until = clock_timestamp() - interval '1 minute'");
  const auto swept = store_->Sweep({});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->replies_dropped, 2);
  Must(
      "UPDATE records SET created_at = created_at - interval '100 days',"
      " lease_until = lease_until - interval '100 days',"
      " completed_at = completed_at - interval '100 days', reply_until = NULL,"
      " expires_at = expires_at - interval '100 days'");
  EXPECT_EQ(store_->Sweep({})->removed, 3) << "the damaged one too";
}

}  // namespace
}  // namespace idempotency::internal
