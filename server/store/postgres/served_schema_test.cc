// A schema that is removed, replaced or reverted while a store serves it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/schema/migrator.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/postgres/testing/store_fixture.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

// However it was replaced: its records are lost, and every key would run again.
TEST_F(PostgresStoreTest, ARecreatedSchemaIsNotServed) {
  const ReserveOp op = OpFor("known");
  ASSERT_TRUE(Reserve(op).ok());
  ASSERT_TRUE(store_->Inspect().ok());
  ASSERT_TRUE(
      schema_->Execute(absl::StrCat("DROP SCHEMA ", schema_->options().schema, " CASCADE")).ok());
  EXPECT_THAT(store_->Inspect().status().ToString(), HasSubstr("was removed while it was served"));
  ASSERT_TRUE(PostgresMigrator(schema_->options()).Up().ok());
  EXPECT_THAT(store_->Inspect().status().ToString(), HasSubstr("was recreated"));
  const absl::StatusOr<Verdict> verdict = Reserve(op);
  EXPECT_EQ(ReasonOf(verdict.status()), Reason::kStoreUnavailable);
  EXPECT_THAT(verdict.status().ToString(), HasSubstr("was recreated"));
  EXPECT_EQ(DetailsOf(verdict.status()).retry_delay, retry_delays::kSchemaGone);
  const absl::Status maintenance[] = {store_->Sweep({}).status(), store_->List({}).status(),
                                      store_->Purge({}).status(), store_->ReadAudit({}).status(),
                                      store_->MeasureUsage({}).status()};
  for (const absl::Status& refused : maintenance) {
    EXPECT_THAT(refused.ToString(), HasSubstr("was recreated"));
  }
  // A store that begins with it misses no records.
  EXPECT_TRUE(PostgresStore::Create(schema_->options()).value()->Inspect().ok());
}

TEST_F(PostgresStoreTest, ASchemaThatWasTakenBackIsServedOnceItIsThereAgain) {
  ASSERT_TRUE(store_->Inspect().ok());
  ASSERT_TRUE(schema_
                  ->Execute("CREATE TABLE taken AS SELECT * FROM schema_migrations"
                            " WHERE version = 4; DELETE FROM schema_migrations WHERE version = 4")
                  .ok());
  EXPECT_EQ(ReasonOf(store_->Inspect().status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(Reserve(OpFor("one")).status()), Reason::kStoreUnavailable);
  ASSERT_TRUE(schema_->Execute("INSERT INTO schema_migrations SELECT * FROM taken").ok());
  EXPECT_TRUE(store_->Inspect().ok());
  EXPECT_TRUE(Reserve(OpFor("one")).ok());
  // A newer one that this build may not serve.
  ASSERT_TRUE(schema_
                  ->Execute("INSERT INTO schema_migrations (version, name, checksum, serves_from)"
                            " VALUES (99, 'later', 'x', 99)")
                  .ok());
  EXPECT_THAT(store_->Inspect().status().ToString(), HasSubstr("newer idempotencyd"));
  EXPECT_EQ(ReasonOf(Reserve(OpFor("two")).status()), Reason::kStoreUnavailable);
}

// The other login has no inspections, which would find that the schema is there again.
TEST_F(PostgresStoreTest, TheLoginForMaintenanceResumesToo) {
  PostgresOptions options = schema_->options();
  options.maintenance_url = options.url;
  store_ = PostgresStore::Create(options).value();
  ASSERT_TRUE(store_->Inspect().ok());
  ASSERT_TRUE(schema_
                  ->Execute("CREATE TABLE taken AS SELECT * FROM schema_migrations"
                            " WHERE version = 4; DELETE FROM schema_migrations WHERE version = 4")
                  .ok());
  EXPECT_FALSE(store_->Sweep({}).ok());
  ASSERT_TRUE(schema_->Execute("INSERT INTO schema_migrations SELECT * FROM taken").ok());
  ASSERT_TRUE(store_->Inspect().ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  absl::Status swept = store_->Sweep({}).status();
  while (!swept.ok() && std::chrono::steady_clock::now() < deadline) {
    swept = store_->Sweep({}).status();
  }
  EXPECT_TRUE(swept.ok()) << swept;
}

TEST_F(PostgresStoreTest, NoConnectionBeginsWhileTheSchemaIsTakenBack) {
  const std::string lock = std::string(kPostgresServeLock);
  ASSERT_TRUE(schema_->Execute("SELECT pg_advisory_lock(" + lock + ")").ok());
  EXPECT_EQ(Reserve(OpFor("one")).status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(schema_->Execute("SELECT pg_advisory_unlock_all()").ok());
  // The next attempt to connect has a pause before it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  absl::Status reserved = Reserve(OpFor("one")).status();
  while (!reserved.ok() && std::chrono::steady_clock::now() < deadline) {
    reserved = Reserve(OpFor("one")).status();
  }
  EXPECT_TRUE(reserved.ok()) << reserved;
}

}  // namespace
}  // namespace idempotency::internal
