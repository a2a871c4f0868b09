// The sweep of a Postgres whose statement was too slow once.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"

#include "grpc_idempotency/record_key.h"
#include "server/observability/observer.h"
#include "server/service/sweeper.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/testing/operations.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

// The clock of a statement whose text is in `slow` ends it, as statement_timeout does.
constexpr char kSlowClock[] = R"sql(
CREATE TABLE slow (statement text);
CREATE FUNCTION slow_now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF EXISTS (SELECT FROM {schema}.slow s WHERE s.statement = current_query()) THEN
    RAISE EXCEPTION 'slow' USING ERRCODE = '57014';
  END IF;
  RETURN clock_timestamp();
END $$
)sql";

// Counts the steps that are too slow; after each, the statement is as fast as before.
class SpeedUp final : public Observer {
 public:
  explicit SpeedUp(testing::PostgresSchema& schema) : schema_(schema) {}
  void SweepStepDone(const absl::StatusOr<SweepProgress>& step, absl::Duration) override {
    if (!step.ok() || !step->too_slow) return;
    ++slow_steps;
    EXPECT_TRUE(schema_.Execute("DELETE FROM slow").ok());
  }
  int slow_steps = 0;

 private:
  testing::PostgresSchema& schema_;
};

class SlowSweepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    schema_ = testing::PostgresSchema::Create(testing::TestPostgresUrl()).value();
    options_ = schema_->options();
    options_.clock_sql = absl::StrCat(options_.schema, ".slow_now()");
    Run(absl::StrReplaceAll(kSlowClock, {{"{schema}", options_.schema}}));
    store_ = PostgresStore::Create(options_).value();
  }

  void Run(const std::string& sql) { ASSERT_TRUE(schema_->Execute(sql).ok()) << sql; }

  // `statement` is too slow in the first pass; then a reservation is made, and its lease ends.
  void ExpectMarkedAfterASlowStep(const std::string& statement, const std::string& key) {
    SpeedUp observer(*schema_);
    Sweeper sweeper(*store_, observer, Sweeper::Options());
    Run(absl::StrCat("INSERT INTO slow VALUES ($sql$", statement, "$sql$)"));
    ASSERT_TRUE(sweeper.RunOnce().ok());
    ASSERT_EQ(observer.slow_steps, 1);

    ReserveOp op = AttemptNamed(key);
    op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
    const absl::StatusOr<Verdict> verdict = store_->Reserve({&op, 1}).at(0);
    ASSERT_TRUE(verdict.ok() && std::holds_alternative<Reserved>(*verdict)) << verdict.status();
    Run("UPDATE records SET lease_until = clock_timestamp() WHERE state = 1");

    const auto pass = sweeper.RunOnce();
    ASSERT_TRUE(pass.ok()) << pass.status();
    EXPECT_EQ(pass->marked_unknown, 1);
  }

  std::unique_ptr<testing::PostgresSchema> schema_;
  PostgresOptions options_;
  std::unique_ptr<PostgresStore> store_;
};

TEST_F(SlowSweepTest, NewRecordsOfUuidKeysAreSwept) {
  ExpectMarkedAfterASlowStep(PostgresStatements(options_.clock_sql).sweep_ordered.sql,
                             Uuid::TimeOrdered(absl::Now()).ToString());
}

TEST_F(SlowSweepTest, NewRecordsOfOtherKeysAreSwept) {
  ExpectMarkedAfterASlowStep(PostgresStatements(options_.clock_sql).sweep_hashed.sql, "opaque");
}

}  // namespace
}  // namespace idempotency::internal
