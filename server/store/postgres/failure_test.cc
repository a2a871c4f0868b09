// After a failed statement its operations are answered STORE_UNAVAILABLE, and the same
// operations succeed once the statement does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/testing/operations.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

// Reading the clock fails within the statement whose text is in `failing`.
constexpr char kFailingClock[] = R"sql(
CREATE TABLE failing (statement text, error text DEFAULT '57014');
CREATE FUNCTION failing_now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE failure text := (SELECT f.error FROM {schema}.failing f
                         WHERE f.statement = current_query());
BEGIN
  IF failure IS NOT NULL THEN
    RAISE EXCEPTION 'no' USING ERRCODE = failure;
  END IF;
  RETURN clock_timestamp();
END $$
)sql";

// Every INSERT into the records counts, whether it inserts a row or not.
constexpr char kCountInserts[] = R"sql(
CREATE SEQUENCE inserts MINVALUE 0 START 0;
SELECT nextval('inserts');
CREATE FUNCTION count_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM nextval('inserts');
  RETURN NULL;
END $$;
CREATE TRIGGER count_inserts BEFORE INSERT ON records
  FOR EACH STATEMENT EXECUTE FUNCTION count_insert()
)sql";

EncodedReply Paid() {
  v1::Reply reply;
  reply.set_body("paid");
  return EncodeReply(reply);
}

class PostgresFailureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl());
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    PostgresOptions options = schema_->options();
    Run(absl::StrReplaceAll(kFailingClock, {{"{schema}", options.schema}}));
    options.clock_sql = absl::StrCat(options.schema, ".failing_now()");
    options.commit_proof = absl::ZeroDuration();
    statements_ = std::make_unique<PostgresStatements>(options.clock_sql);
    store_ = PostgresStore::Create(options).value();
  }

  void Run(const std::string& sql) { ASSERT_TRUE(schema_->Execute(sql).ok()) << sql; }

  absl::StatusOr<Verdict> Reserve(const ReserveOp& op) { return store_->Reserve({&op, 1}).at(0); }
  Uuid MustReserve(const ReserveOp& op) {
    const auto verdict = Reserve(op);
    const auto* const reserved = verdict.ok() ? std::get_if<Reserved>(&*verdict) : nullptr;
    EXPECT_NE(reserved, nullptr) << verdict.status();
    return reserved == nullptr ? Uuid() : reserved->token;
  }
  absl::Status Complete(const ReserveOp& op, const Uuid& token) {
    const CompleteOp completion{op.key, op.id, token, Paid()};
    return store_->Complete({&completion, 1}).at(0).status();
  }

  // The statement fails from now on, by default as at its statement timeout.
  void Fail(const PostgresStatement& statement, const std::string& error = "57014") {
    Run(absl::StrCat("INSERT INTO failing VALUES ($sql$", statement.sql, "$sql$, '", error, "')"));
  }
  // `call` answers STORE_UNAVAILABLE while the statement fails, and not otherwise.
  template <typename Call>
  void ExpectNoAnswer(const PostgresStatement& statement, Call call,
                      const std::string& error = "57014") {
    SCOPED_TRACE(statement.name);
    Fail(statement, error);
    EXPECT_EQ(ReasonOf(call()), Reason::kStoreUnavailable);
    Run("DELETE FROM failing");
    const absl::Status again = call();
    EXPECT_NE(ReasonOf(again), Reason::kStoreUnavailable) << again;
  }

  std::string Inserts() { return schema_->Value("SELECT last_value FROM inserts"); }

  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresStatements> statements_;
  std::unique_ptr<PostgresStore> store_;
};

TEST_F(PostgresFailureTest, OfReservations) {
  const auto reserve = [this](const ReserveOp& op) {
    return [this, op] { return Reserve(op).status(); };
  };
  ExpectNoAnswer(statements_->insert_one, reserve(AttemptNamed("new")));
  const std::vector<ReserveOp> both = {AttemptNamed("both-0"), AttemptNamed("both-1")};
  ExpectNoAnswer(statements_->insert, [&] { return store_->Reserve(both).back().status(); });

  ReserveOp known = AttemptNamed("known");
  MustReserve(known);
  known.request_token = Uuid::Random();
  ExpectNoAnswer(statements_->read_to_reserve, reserve(known));
  // Not inserted, and absent: the clock shows why.
  ExpectNoAnswer(
      statements_->read_clock,
      reserve(AttemptNamed(Uuid::TimeOrdered(absl::Now() - absl::Hours(25)).ToString())));

  const ReserveOp forgotten = AttemptNamed("forgotten");
  MustReserve(forgotten);
  Run("UPDATE records SET created_at = created_at - interval '40 days',"
      " lease_until = lease_until - interval '40 days',"
      " expires_at = expires_at - interval '40 days' WHERE key = 'forgotten'");
  ExpectNoAnswer(statements_->start_afresh, reserve(forgotten));

  ReserveOp taken = AttemptNamed("taken");
  MustReserve(taken);
  const ReserveOp renewed = AttemptNamed("renewed");
  MustReserve(renewed);
  ReserveOp unknown = AttemptNamed("unknown");
  unknown.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(unknown);
  Run("UPDATE records SET lease_until = clock_timestamp()");
  taken.request_token = Uuid::Random();
  ExpectNoAnswer(statements_->grant, reserve(taken));
  ExpectNoAnswer(statements_->renew_lease, reserve(renewed));
  unknown.request_token = Uuid::Random();
  ExpectNoAnswer(statements_->mark_unknown, reserve(unknown));
  EXPECT_EQ(schema_->Value("SELECT state FROM records WHERE key = 'unknown'"), "4");
}

TEST_F(PostgresFailureTest, OfWritesUnderAToken) {
  const ReserveOp op = AttemptNamed("held");
  const Uuid token = MustReserve(op);
  const ExtendOp extension{op.key, op.id, token, absl::Minutes(1), std::nullopt};
  ExpectNoAnswer(statements_->extend, [&] {
    return store_->Extend({&extension, 1}).at(0).status();
  });
  const ExtendOp checkpoint{op.key, op.id, token, absl::Minutes(1), "step"};
  ExpectNoAnswer(statements_->extend_with_checkpoint, [&] {
    return store_->Extend({&checkpoint, 1}).at(0).status();
  });
  ExpectNoAnswer(statements_->complete_one, [&] { return Complete(op, token); });
  const ReserveOp other = AttemptNamed("other");
  const std::vector<CompleteOp> both = {{op.key, op.id, token, Paid()},
                                        {other.key, other.id, MustReserve(other), Paid()}};
  ExpectNoAnswer(statements_->complete, [&] { return store_->Complete(both).back().status(); });
  // A stale token matches no row, and then the row is read.
  ExpectNoAnswer(statements_->read_to_settle, [&] { return Complete(op, Uuid::Random()); });
  const ReserveOp given_back = AttemptNamed("given back");
  const ReleaseOp release{given_back.key, given_back.id, MustReserve(given_back), "why"};
  ExpectNoAnswer(statements_->release, [&] { return store_->Release({&release, 1}).at(0); });
}

TEST_F(PostgresFailureTest, OfCompletionsAndReservationsTogether) {
  const ReserveOp running = AttemptNamed("running");
  const CompleteOp completion{running.key, running.id, MustReserve(running), Paid()};
  const std::vector<ReserveOp> fresh = {AttemptNamed("fresh-0"), AttemptNamed("fresh-1")};
  ExpectNoAnswer(statements_->complete_and_insert, [&] {
    const SharedAnswers answers = store_->CompleteAndReserve({&completion, 1}, fresh);
    EXPECT_EQ(answers.completions.at(0).ok(), answers.verdicts.at(0).ok());
    return answers.verdicts.back().status();
  });
  EXPECT_EQ(schema_->Value("SELECT state FROM records WHERE key = 'running'"), "2");
}

TEST_F(PostgresFailureTest, OfReads) {
  const ReserveOp op = AttemptNamed("read");
  MustReserve(op);
  GetOp get{op.id, op.key};
  ExpectNoAnswer(statements_->read_whole, [&] { return store_->Get({&get, 1}).at(0).status(); });
  get.confirmed = true;
  ExpectNoAnswer(statements_->read_whole_confirmed, [&] {
    return store_->Get({&get, 1}).at(0).status();
  });
  ExpectNoAnswer(statements_->probe_commit, [&] { return store_->Inspect().status(); });
}

// Commits are proved by then: health says nothing else.
TEST_F(PostgresFailureTest, GaugesThatWereNeverReadAreNone) {
  for (const char* const error : {"XX001", "57014", "55P03", "53200"}) {
    Fail(statements_->inspect, error);
    const auto inspected = store_->Inspect();
    ASSERT_TRUE(inspected.ok()) << error << ": " << inspected.status();
    EXPECT_EQ(inspected->unknown_records, std::nullopt);
    EXPECT_EQ(inspected->oldest_reserved_age, std::nullopt);
    EXPECT_FALSE(inspected->read);
    Run("DELETE FROM failing");
  }
  EXPECT_EQ(store_->Inspect()->unknown_records, 0);
  EXPECT_TRUE(store_->Inspect()->read);
}

TEST_F(PostgresFailureTest, GaugesThatCannotBeReadAreThoseOfBefore) {
  ReserveOp unknown = AttemptNamed("unknown");
  const ReleaseOp release{unknown.key, unknown.id, MustReserve(unknown), "why", true};
  ASSERT_TRUE(store_->Release({&release, 1}).at(0).ok());
  ASSERT_EQ(store_->Inspect()->unknown_records, 1);
  for (const char* const error : {"XX001", "57014", "55P03", "53200"}) {
    Fail(statements_->inspect, error);
    const auto inspected = store_->Inspect();
    ASSERT_TRUE(inspected.ok()) << error << ": " << inspected.status();
    EXPECT_EQ(inspected->unknown_records, 1);
    EXPECT_FALSE(inspected->read);
    Run("DELETE FROM failing");
  }
  ExpectNoAnswer(statements_->probe_commit, [&] { return store_->Inspect().status(); });
}

TEST_F(PostgresFailureTest, OfTheSweep) {
  for (const std::string& key :
       {std::string("opaque"), Uuid::TimeOrdered(absl::Now()).ToString()}) {
    ReserveOp op = AttemptNamed(key);
    op.reply_retention = absl::Hours(1);
    ASSERT_TRUE(Complete(op, MustReserve(op)).ok());
  }
  const auto sweep = [this] { return store_->Sweep({}).status(); };
  ExpectNoAnswer(statements_->sweep_ordered, sweep, "53200");
  ExpectNoAnswer(statements_->sweep_hashed, sweep, "53200");
  Fail(statements_->sweep_ordered);
  EXPECT_TRUE(store_->Sweep({})->too_slow);
  SweepOp narrowest;
  narrowest.narrow = SweepOp::kNarrowest;
  EXPECT_EQ(ReasonOf(store_->Sweep(narrowest).status()), Reason::kStoreUnavailable);
  Run("DELETE FROM failing");
  // The ordered ones are done: the next step is of the others alone.
  Fail(statements_->sweep_hashed);
  SweepOp op;
  const auto ordered = store_->Sweep(op);
  ASSERT_TRUE(ordered.ok()) << ordered.status();
  EXPECT_FALSE(ordered->too_slow);
  op.after = ordered->next;
  EXPECT_TRUE(store_->Sweep(op)->too_slow);
  Run("DELETE FROM failing");
  Run("UPDATE records SET reply_until = clock_timestamp()");
  ExpectNoAnswer(statements_->drop_replies, sweep);
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM records WHERE status_digest IS NOT NULL"), "2");
}

// It proves no commits: only a read shows that it answers.
TEST_F(PostgresFailureTest, AReadOnlyStoreIsUnavailableWhileItsGaugesCannotBeRead) {
  PostgresOptions options = schema_->options();
  options.clock_sql = absl::StrCat(options.schema, ".failing_now()");
  options.read_only = true;
  store_ = PostgresStore::Create(options).value();
  ASSERT_TRUE(store_->Inspect().ok());
  ExpectNoAnswer(statements_->inspect, [&] { return store_->Inspect().status(); });
}

// Both ways give the same answers; the order in which they are tried depends on the last batches.
TEST_F(PostgresFailureTest, WhereMostKeysExistTheyAreReadBeforeTheyAreInserted) {
  Run(kCountInserts);
  const ReserveOp known = AttemptNamed("known");
  MustReserve(known);
  EXPECT_EQ(Inserts(), "1");
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(Reserve(known).ok());
  EXPECT_EQ(Inserts(), "7") << "the mean is not there yet";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Reserve(known).ok());
  EXPECT_EQ(Inserts(), "7");
  // New keys cost one more read, until most keys are new.
  int fresh = 0;
  for (; fresh < 3; ++fresh) MustReserve(AttemptNamed(absl::StrCat("new-", fresh)));
  EXPECT_EQ(Inserts(), "10");
  EXPECT_TRUE(Reserve(known).ok());
  EXPECT_EQ(Inserts(), "11") << "tried first again";
}

TEST_F(PostgresFailureTest, SoAreThoseThatCameWithCompletions) {
  Run(kCountInserts);
  const ReserveOp known = AttemptNamed("known");
  const CompleteOp completion{known.key, known.id, MustReserve(known), Paid()};
  for (int i = 0; i < 6; ++i) {
    const SharedAnswers answers = store_->CompleteAndReserve({&completion, 1}, {&known, 1});
    EXPECT_TRUE(answers.completions.at(0).ok()) << answers.completions.at(0).status();
    EXPECT_TRUE(answers.verdicts.at(0).ok()) << answers.verdicts.at(0).status();
  }
  EXPECT_EQ(Inserts(), "7");
  store_->CompleteAndReserve({&completion, 1}, {&known, 1});
  EXPECT_TRUE(Reserve(known).ok());
  EXPECT_EQ(Inserts(), "7");
}

}  // namespace
}  // namespace idempotency::internal
