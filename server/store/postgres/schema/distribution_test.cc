// Records that are distributed beside a store, and the statements that are chosen for them. Citus
// is a catalog and a function of this test's.
#include "server/store/postgres/schema/distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "server/store/postgres/schema/migrator.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/postgres/testing/store_fixture.h"
#include "tests/support/fake_citus.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

class DistributionTest : public PostgresStoreTest {
 protected:
  void SetUp() override {
    // The extension is of the whole database.
    Open(testing::PostgresCluster::Shared().NewDatabase());
    Run(testing::kFakeCitus);
  }

  void Run(const std::string& sql) {
    const auto done = schema_->Execute(sql);
    ASSERT_TRUE(done.ok()) << done.status();
  }
  // As a restart of the server does, or a network that drops idle connections.
  void EndSessionsOfStore() {
    const std::string sessions =
        " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    Run("SELECT pg_terminate_backend(pid)" + sessions);
    ASSERT_TRUE(Await("SELECT count(*)" + sessions, "0"));
  }
  absl::Status Distribute() { return PostgresMigrator(schema_->options()).Distribute(); }
  void ExpectNotServed() {
    const absl::Status inspected = store_->Inspect().status();
    EXPECT_THAT(inspected.ToString(), HasSubstr("was distributed by Citus"));
    const absl::Status reserved = Reserve(OpFor("new")).status();
    for (const absl::Status& refused : {inspected, reserved, store_->Sweep({}).status()}) {
      EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable);
      EXPECT_THAT(refused.ToString(), HasSubstr("restart idempotencyd"));
      EXPECT_EQ(DetailsOf(refused).retry_delay, retry_delays::kSchemaGone);
    }
  }
};

TEST_F(DistributionTest, IsRefusedWhileAStoreHasSessions) {
  ASSERT_TRUE(store_->Inspect().ok());
  const absl::Status refused = Distribute();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.ToString(), HasSubstr("stop every idempotencyd first"));
  EXPECT_TRUE(store_->Inspect().ok());
}

// The lock of its sessions ended with them.
TEST_F(DistributionTest, WhileAStoreHadNoSessionIsNotServedInBatches) {
  const ReserveOp op = OpFor("known");
  ASSERT_TRUE(Reserve(op).ok());
  EndSessionsOfStore();
  const absl::Status distributed = Distribute();
  ASSERT_TRUE(distributed.ok()) << distributed;
  ExpectNotServed();
  ExpectNotServed();
  // A restart.
  const auto chosen = ChooseStatements(schema_->options(), std::nullopt);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(*chosen, PostgresStatementMode::kSingleRow);
  statements_ = *chosen;
  OpenStore();
  EXPECT_TRUE(store_->Inspect().ok());
  EXPECT_TRUE(Reserve(op).ok());
}

TEST_F(DistributionTest, BetweenTheChoiceAndTheFirstSessionIsNotServedInBatches) {
  ASSERT_EQ(ChooseStatements(schema_->options(), std::nullopt).value(), statements_);
  ASSERT_TRUE(
      Await("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()",
            "0"));
  const absl::Status distributed = Distribute();
  ASSERT_TRUE(distributed.ok()) << distributed;
  ExpectNotServed();
}

TEST_F(DistributionTest, ByHandIsNoticedByTheNextInspection) {
  ASSERT_TRUE(store_->Inspect().ok());
  Run("INSERT INTO pg_dist_partition VALUES ('records', 'h')");
  ExpectNotServed();
  Run("DELETE FROM pg_dist_partition");
  EXPECT_TRUE(store_->Inspect().ok());
  EXPECT_TRUE(Reserve(OpFor("new")).ok());
}

// So that a daemon that starts meanwhile tries again.
TEST_F(DistributionTest, NothingIsChosenWhileTheSchemaIsLocked) {
  Run(absl::StrCat("SELECT pg_advisory_lock(", std::string(kPostgresServeLock), ")"));
  const auto early = ChooseStatements(schema_->options(), std::nullopt);
  EXPECT_EQ(early.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(early.status().ToString(), HasSubstr("is being distributed"));
  Run("INSERT INTO pg_dist_partition VALUES ('records', 'h'); SELECT pg_advisory_unlock_all()");
  EXPECT_EQ(ChooseStatements(schema_->options(), std::nullopt).value(),
            PostgresStatementMode::kSingleRow);
}

// `serve` reports it.
TEST_F(DistributionTest, WithoutASchemaSomethingIsChosen) {
  PostgresOptions options = schema_->options();
  options.schema = "not_there";
  EXPECT_EQ(ChooseStatements(options, std::nullopt).value(), PostgresStatementMode::kBatched);
}

}  // namespace
}  // namespace idempotency::internal
