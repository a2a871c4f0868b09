#include "server/store/postgres_migrator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PostgresMigratorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl(), {/*migrate=*/false});
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
  }

  PostgresMigrator Migrator() { return PostgresMigrator(schema_->options()); }
  void Execute(const std::string& sql) {
    const auto done = schema_->Execute(sql);
    ASSERT_TRUE(done.ok()) << done.status();
  }
  // That CheckSchema and Up refuse the schema, and say `text`.
  void ExpectRefused(const std::string& text) {
    for (const absl::Status& status : {Migrator().CheckSchema(), Migrator().Up().status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    }
  }

  std::unique_ptr<testing::PostgresSchema> schema_;
};

TEST_F(PostgresMigratorTest, UpDownUp) {
  EXPECT_THAT(std::string(Migrator().CheckSchema().message()), HasSubstr("idempotencyd migrate"));
  EXPECT_THAT(*Migrator().Up(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(Migrator().CheckSchema().ok()) << Migrator().CheckSchema();
  EXPECT_THAT(*Migrator().Up(), IsEmpty());
  EXPECT_THAT(*Migrator().Down(1), ElementsAre(3, 2));
  const auto states = Migrator().Status();
  ASSERT_TRUE(states.ok());
  ASSERT_EQ(states->size(), 3u);
  EXPECT_TRUE((*states)[0].applied);
  EXPECT_FALSE((*states)[0].applied_at.empty());
  EXPECT_FALSE((*states)[1].applied);
  EXPECT_THAT(std::string(Migrator().CheckSchema().message()), HasSubstr("is at version 1"));
  EXPECT_THAT(*Migrator().Down(0), ElementsAre(1));
  EXPECT_THAT(*Migrator().Up(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(Migrator().CheckSchema().ok());
}

// An older program finds what it can read: a reply of which the status is left,
// and no tombstone.
TEST_F(PostgresMigratorTest, TakingTheRetentionsBackLeavesRowsThatAnOlderProgramReads) {
  ASSERT_TRUE(Migrator().Up().ok());
  const std::string insert =
      "INSERT INTO records (id, namespace, scope, operation, key, state, require_recovery,"
      " attempt, token, created_at, lease_until, expires_at, fingerprints, completed_at, reply,"
      " reply_digest, status_digest, reply_until, tombstone_until)"
      " SELECT gen_random_uuid(), 'n', 's', 'o', ";
  const std::string middle = ", false, 1, gen_random_uuid(), now(), now(), now() + '1h', ";
  Execute(insert + "'dropped', 2" + middle +
          "'f', now(), 'status', sha256('whole'), sha256('status'), now() + '1s', NULL");
  Execute(insert + "'tombstone', 3" + middle + "'', NULL, NULL, NULL, NULL, NULL, now() + '2h'");
  EXPECT_THAT(*Migrator().Down(2), ElementsAre(3));
  EXPECT_EQ(schema_->Value("SELECT string_agg(key, ',') FROM records"), "dropped");
  EXPECT_EQ(schema_->Value("SELECT reply_digest = sha256(reply) FROM records"), "t");
  EXPECT_THAT(*Migrator().Up(), ElementsAre(3));
}

TEST_F(PostgresMigratorTest, ReplicasMayMigrateAtOnce) {
  constexpr int kReplicas = 4;
  std::vector<absl::StatusOr<std::vector<int>>> applied(kReplicas,
                                                        absl::UnknownError("did not run"));
  std::vector<std::thread> replicas;
  for (int i = 0; i < kReplicas; ++i) {
    replicas.emplace_back([&, i] {
      pthread_setname_np(pthread_self(), "replica");
      applied[i] = Migrator().Up();
    });
  }
  for (std::thread& replica : replicas) replica.join();
  std::size_t total = 0;
  for (const auto& versions : applied) {
    ASSERT_TRUE(versions.ok()) << versions.status();
    total += versions->size();
  }
  EXPECT_EQ(total, AllMigrations().size()) << "each was applied once";
  EXPECT_TRUE(Migrator().CheckSchema().ok());
}

TEST_F(PostgresMigratorTest, ANewerSchemaIsRefused) {
  ASSERT_TRUE(Migrator().Up().ok());
  Execute("INSERT INTO schema_migrations VALUES (4, 'later', 'x', now())");
  ExpectRefused("run a newer idempotencyd");
}

// During an upgrade: the schema is migrated, and a daemon of before starts again.
TEST_F(PostgresMigratorTest, ANewerSchemaThatServesOlderProgramsIsServed) {
  std::vector<Migration> later(AllMigrations().begin(), AllMigrations().end());
  const int known = later.back().version;
  later.push_back({known + 1, "more_room", "ALTER TABLE records ADD COLUMN extra integer",
                   "ALTER TABLE records DROP COLUMN extra", known});
  ASSERT_TRUE(PostgresMigrator(schema_->options(), later).Up().ok());
  EXPECT_TRUE(Migrator().CheckSchema().ok()) << Migrator().CheckSchema();
  // To change what it does not know is not for it.
  EXPECT_EQ(Migrator().Up().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Migrator().Down(0).status().code(), absl::StatusCode::kFailedPrecondition);

  later.push_back({known + 2, "other_meaning", "ALTER TABLE records ADD COLUMN other integer",
                   "ALTER TABLE records DROP COLUMN other", known + 2});
  ASSERT_TRUE(PostgresMigrator(schema_->options(), later).Up().ok());
  ExpectRefused("run a newer idempotencyd");
}

TEST_F(PostgresMigratorTest, AHistoryOfAnEarlyBuildIsCompleted) {
  ASSERT_TRUE(PostgresMigrator(schema_->options(), AllMigrations().first(2)).Up().ok());
  Execute("ALTER TABLE schema_migrations DROP COLUMN serves_from");
  EXPECT_THAT(*Migrator().Up(), ElementsAre(3));
  EXPECT_TRUE(Migrator().CheckSchema().ok());
}

TEST_F(PostgresMigratorTest, AForeignSchemaIsRefused) {
  Execute(absl::StrCat("CREATE SCHEMA ", schema_->options().schema));
  Execute("CREATE TABLE invoices (id integer)");
  ExpectRefused("no migration of this program made");
}

TEST_F(PostgresMigratorTest, AForeignHistoryIsRefused) {
  Execute(absl::StrCat("CREATE SCHEMA ", schema_->options().schema));
  Execute("CREATE TABLE schema_migrations (id text)");
  ExpectRefused("is not this program's");
}

TEST_F(PostgresMigratorTest, AGapInTheHistoryIsRefused) {
  ASSERT_TRUE(Migrator().Up().ok());
  Execute("DELETE FROM schema_migrations WHERE version = 1");
  ExpectRefused("has migration 2 but lacks 1");
}

TEST_F(PostgresMigratorTest, AnEditedMigrationIsRefused) {
  ASSERT_TRUE(Migrator().Up().ok());
  Execute("UPDATE schema_migrations SET checksum = 'x' WHERE version = 2");
  ExpectRefused("with another text");
}

TEST_F(PostgresMigratorTest, AMissingTableOrColumnIsNoticed) {
  ASSERT_TRUE(Migrator().Up().ok());
  Execute("ALTER TABLE records DROP COLUMN recovering CASCADE");
  EXPECT_THAT(std::string(Migrator().CheckSchema().message()), HasSubstr("SQLSTATE 42703"));
  Execute("DROP TABLE records");
  EXPECT_THAT(std::string(Migrator().CheckSchema().message()), HasSubstr("SQLSTATE 42P01"));
}

TEST_F(PostgresMigratorTest, AFailedMigrationLeavesNothingBehind) {
  const Migration broken[] = {
      {1, "good", "CREATE TABLE good (id integer)", "DROP TABLE good", 1},
      {2, "bad", "CREATE TABLE half (id integer); SELECT nonsense", "DROP TABLE half", 2}};
  const absl::Status status = PostgresMigrator(schema_->options(), broken).Up().status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("2_bad failed and was undone"));
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM schema_migrations"), "1");
  EXPECT_EQ(schema_->Value("SELECT to_regclass('half') IS NULL"), "t");
}

// A session that ends while the history is read says nothing about the history.
TEST_F(PostgresMigratorTest, ASessionThatIsLostIsUnavailable) {
  ASSERT_TRUE(Migrator().Up().ok());
  Execute("BEGIN; LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE");
  absl::Status checked;
  std::thread checks([&] {
    pthread_setname_np(pthread_self(), "checks");
    checked = Migrator().CheckSchema();
  });
  const std::string waiting =
      absl::StrCat(" FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%",
                   schema_->options().schema, ".schema_migrations%'");
  // A transaction sees the activity of the moment when it first looked.
  while (schema_->Value("SELECT count(*)" + waiting) == "0") {
    Execute("SELECT pg_stat_clear_snapshot()");
  }
  Execute("SELECT pg_terminate_backend(pid)" + waiting);
  checks.join();
  EXPECT_EQ(checked.code(), absl::StatusCode::kUnavailable) << checked;
  Execute("ROLLBACK");
}

TEST_F(PostgresMigratorTest, AnUnreachableServerIsUnavailable) {
  PostgresOptions options = schema_->options();
  options.url = "postgresql://nobody@/nowhere?host=%2Fnonexistent";
  EXPECT_EQ(PostgresMigrator(options).CheckSchema().code(), absl::StatusCode::kUnavailable);
  options.schema = "Robert'); DROP TABLE";
  EXPECT_EQ(PostgresMigrator(options).Up().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace idempotency
