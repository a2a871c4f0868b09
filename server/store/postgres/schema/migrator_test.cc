#include "server/store/postgres/schema/migrator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "grpc_idempotency/record_key.h"
#include "server/store/postgres/connection/conninfo.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/schema/lock_wait.h"
#include "server/store/testing/operations.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
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
  // That CheckSchema and Up refuse the schema, and report `text`.
  void ExpectRefused(const std::string& text) {
    for (const absl::Status& status : {Migrator().CheckSchema(), Migrator().Up().status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    }
  }

  std::unique_ptr<testing::PostgresSchema> schema_;
};

TEST(PostgresMigratorOptionsTest, AMigrationWaitsForLessThanTrafficDoes) {
  EXPECT_EQ(kMigrationLockTimeout, absl::Milliseconds(500));
  EXPECT_LT(kMigrationLockTimeout, PostgresOptions().lock_timeout);
  EXPECT_EQ(kMigrationLockPause, absl::Seconds(2));
  EXPECT_EQ(kMigrationPatience, absl::Minutes(10));
}

TEST_F(PostgresMigratorTest, UpDownUp) {
  EXPECT_THAT(std::string(Migrator().CheckSchema().message()), HasSubstr("idempotencyd migrate"));
  EXPECT_THAT(*Migrator().Up(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_TRUE(Migrator().CheckSchema().ok()) << Migrator().CheckSchema();
  EXPECT_THAT(*Migrator().Up(), IsEmpty());
  EXPECT_THAT(*Migrator().Down(1), ElementsAre(8, 7, 6, 5, 4, 3, 2));
  const auto states = Migrator().Status();
  ASSERT_TRUE(states.ok());
  ASSERT_EQ(states->size(), 8u);
  EXPECT_TRUE((*states)[0].applied);
  EXPECT_FALSE((*states)[0].applied_at.empty());
  EXPECT_FALSE((*states)[1].applied);
  EXPECT_THAT(std::string(Migrator().CheckSchema().message()), HasSubstr("is at version 1"));
  EXPECT_THAT(*Migrator().Down(0), ElementsAre(1));
  EXPECT_THAT(*Migrator().Up(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_TRUE(Migrator().CheckSchema().ok());
}

// An older program finds only rows that it can read: a reply of which only the status is left, and
// no tombstone.
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
  EXPECT_THAT(*Migrator().Down(2), ElementsAre(8, 7, 6, 5, 4, 3));
  EXPECT_EQ(schema_->Value("SELECT string_agg(key, ',') FROM records"), "dropped");
  EXPECT_EQ(schema_->Value("SELECT reply_digest = sha256(reply) FROM records"), "t");
  EXPECT_THAT(*Migrator().Up(), ElementsAre(3, 4, 5, 6, 7, 8));
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
  Execute("INSERT INTO schema_migrations VALUES (99, 'later', 'x', now())");
  ExpectRefused("run a newer idempotencyd");
}

// During an upgrade: the schema is migrated, and a daemon of the previous version starts again.
TEST_F(PostgresMigratorTest, ANewerSchemaThatServesOlderProgramsIsServed) {
  std::vector<Migration> later(AllMigrations().begin(), AllMigrations().end());
  const int known = later.back().version;
  later.push_back({known + 1, "more_room", "ALTER TABLE records ADD COLUMN extra integer",
                   "ALTER TABLE records DROP COLUMN extra", known});
  ASSERT_TRUE(PostgresMigrator(schema_->options(), later).Up().ok());
  EXPECT_TRUE(Migrator().CheckSchema().ok()) << Migrator().CheckSchema();
  // `migrate` accepts every schema that `serve` accepts, or a rollback could not start where both
  // run.
  const auto nothing = Migrator().Up();
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_THAT(*nothing, IsEmpty());
  const auto states = Migrator().Status();
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_TRUE(states->back().newer);
  EXPECT_EQ(states->back().version, known + 1);
  // A program must not take back steps that it does not contain.
  EXPECT_EQ(Migrator().Down(0).status().code(), absl::StatusCode::kFailedPrecondition);

  later.push_back({known + 2, "other_meaning", "ALTER TABLE records ADD COLUMN other integer",
                   "ALTER TABLE records DROP COLUMN other", known + 2});
  ASSERT_TRUE(PostgresMigrator(schema_->options(), later).Up().ok());
  ExpectRefused("run a newer idempotencyd");
}

TEST_F(PostgresMigratorTest, AHistoryOfAnEarlyBuildIsCompleted) {
  ASSERT_TRUE(PostgresMigrator(schema_->options(), AllMigrations().first(2)).Up().ok());
  Execute("ALTER TABLE schema_migrations DROP COLUMN serves_from");
  EXPECT_THAT(*Migrator().Up(), ElementsAre(3, 4, 5, 6, 7, 8));
  EXPECT_TRUE(Migrator().CheckSchema().ok());
}

// A connection reads the table in an open transaction: the migration must not block the other
// connections.
TEST_F(PostgresMigratorTest, ALongTransactionDelaysTheMigrationAndNotTraffic) {
  ASSERT_TRUE(Migrator().Up().ok());
  PostgresOptions options = schema_->options();
  options.lock_timeout = absl::Seconds(30);
  const auto store = PostgresStore::Create(options).value();
  const auto traffic = [&store](const std::string& key) {
    const ReserveOp op = ReserveNamed(key);
    return store->Reserve({&op, 1}).at(0).status();
  };
  std::vector<Migration> later(AllMigrations().begin(), AllMigrations().end());
  const int known = later.back().version;
  later.push_back({known + 1, "more_room", "ALTER TABLE records ADD COLUMN extra integer",
                   "ALTER TABLE records DROP COLUMN extra", known});

  Execute("BEGIN; SELECT count(*) FROM records");
  absl::StatusOr<std::vector<int>> applied = absl::UnknownError("did not run");
  std::thread migrates([&] {
    pthread_setname_np(pthread_self(), "migrates");
    applied = PostgresMigrator(schema_->options(), later).Up();
  });
  for (int i = 0; i < 2; ++i) {
    while (schema_->Value("SELECT count(*) FROM pg_locks WHERE NOT granted"
                          " AND relation = 'records'::regclass"
                          " AND mode = 'AccessExclusiveLock'") == "0") {
      std::this_thread::yield();
    }
    const absl::Status served = traffic(absl::StrCat("key-", i));
    EXPECT_TRUE(served.ok()) << served;
  }
  Execute("COMMIT");
  migrates.join();
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_THAT(*applied, ElementsAre(known + 1));
  EXPECT_TRUE(traffic("after").ok());
}

// A busy table is vacuumed most of the time, and a vacuum of a large one takes longer than
// kMigrationPatience.
TEST(PostgresMigratorVacuumTest, AnAutovacuumGivesWay) {
  testing::PostgresClusterOptions cluster_options;
  cluster_options.settings = {"autovacuum_naptime=1s"};
  const auto cluster = testing::PostgresCluster::Create(cluster_options).value();
  const auto schema = testing::PostgresSchema::Create(cluster->NewDatabase()).value();
  // A page each 100 ms: minutes.
  for (const char* const statement :
       {"CREATE TABLE wide (i integer, filler text)",
        "ALTER TABLE wide SET (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = "
        "1,"
        " autovacuum_vacuum_threshold = 1, autovacuum_vacuum_insert_threshold = 1)",
        "INSERT INTO wide SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i",
        "UPDATE wide SET i = i + 1"}) {
    const auto done = schema->Execute(statement);
    ASSERT_TRUE(done.ok()) << done.status();
  }
  const auto vacuums = [&schema] {
    return schema->Value("SELECT count(*) FROM pg_stat_progress_vacuum");
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (vacuums() == "0") {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no autovacuum began";
    std::this_thread::yield();
  }

  std::vector<Migration> later(AllMigrations().begin(), AllMigrations().end());
  const int known = later.back().version;
  later.push_back({known + 1, "more_room", "ALTER TABLE wide ADD COLUMN extra integer",
                   "ALTER TABLE wide DROP COLUMN extra", known});
  const auto applied = PostgresMigrator(schema->options(), later).Up();
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_THAT(*applied, ElementsAre(known + 1));
  EXPECT_EQ(schema->Value("SELECT autovacuum_count FROM pg_stat_user_tables"
                          " WHERE relname = 'wide' AND schemaname = current_schema()"),
            "0")
      << "the migration waited for the end of the vacuum";
}

TEST_F(PostgresMigratorTest, TheRemedyForAWaitNamesTheVacuum) {
  SocketWatchdog watchdog;
  const auto connection = PostgresConnection::Open(schema_->options(), watchdog).value();
  Execute("CREATE SCHEMA IF NOT EXISTS " + schema_->options().schema);
  Execute(
      "CREATE TABLE wide AS SELECT i, repeat('x', 1000) AS filler FROM generate_series(1, 20000) "
      "i");
  EXPECT_THAT(RemedyForLockWait(*connection, schema_->options().schema),
              HasSubstr("a long transaction"));
  const auto vacuum = PostgresConnection::Open(schema_->options(), watchdog).value();
  ASSERT_TRUE(vacuum->ExecuteScript("SET vacuum_cost_delay TO 100").ok());
  ASSERT_TRUE(vacuum->ExecuteScript("SET vacuum_cost_limit TO 1").ok());
  const std::string pid = vacuum->ExecuteScript("SELECT pg_backend_pid()")->Text(0, 0);
  std::thread vacuums([&] {
    pthread_setname_np(pthread_self(), "vacuums");
    static_cast<void>(vacuum->ExecuteScript("VACUUM wide"));
  });
  while (schema_->Value("SELECT count(*) FROM pg_stat_progress_vacuum WHERE pid = " + pid) == "0") {
    std::this_thread::yield();
  }
  EXPECT_THAT(RemedyForLockWait(*connection, schema_->options().schema),
              HasSubstr(absl::StrCat("a vacuum holds it: wide (PID ", pid, ")")));
  Execute("SELECT pg_cancel_backend(" + pid + ")");
  vacuums.join();
}

// Also in a table with rows, and beside writers.
TEST_F(PostgresMigratorTest, AnIndexIsBuiltBesideTraffic) {
  ASSERT_TRUE(PostgresMigrator(schema_->options(), AllMigrations().first(3)).Up().ok());
  // A write in an open transaction: an index that is not built CONCURRENTLY would wait for it.
  Execute("BEGIN; LOCK TABLE records IN ROW EXCLUSIVE MODE");
  absl::StatusOr<std::vector<int>> applied = absl::UnknownError("did not run");
  std::thread migrates([&] {
    pthread_setname_np(pthread_self(), "migrates");
    applied = Migrator().Up();
  });
  while (schema_->Value("SELECT count(*) FROM pg_locks WHERE NOT granted"
                        " AND pg_backend_pid() = ANY (pg_blocking_pids(pid))") == "0") {
    std::this_thread::yield();
  }
  EXPECT_NE(schema_->Value("SELECT count(*) FROM pg_stat_activity WHERE application_name ="
                           " 'idempotencyd migrate'"),
            "0");
  Execute("COMMIT");
  migrates.join();
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(schema_->Value("SELECT indisvalid FROM pg_index"
                           " WHERE indexrelid = 'records_open_for_long'::regclass"),
            "t");
  EXPECT_TRUE(Migrator().CheckSchema().ok()) << Migrator().CheckSchema();
  // A half-finished step is started again.
  const std::string audit_key = schema_->Value("SELECT key FROM audit_key");
  Execute("DELETE FROM schema_migrations WHERE version >= 4");
  EXPECT_THAT(*Migrator().Up(), ElementsAre(4, 5, 6, 7, 8));
  EXPECT_EQ(schema_->Value("SELECT key FROM audit_key"), audit_key);
}

// As a container's that is removed: its session must not hold the lock until the statement's end.
TEST_F(PostgresMigratorTest, AKilledMigrationLeavesTheTurnToTheNext) {
  ASSERT_TRUE(PostgresMigrator(schema_->options(), AllMigrations().first(7)).Up().ok());
  SocketWatchdog watchdog;
  const auto connection = PostgresConnection::Open(schema_->options(), watchdog).value();
  const auto holders = [&] {
    return HoldersOfMigrationLock(*connection, schema_->options().schema);
  };
  EXPECT_EQ(holders(), "");
  // The index build waits for this transaction.
  Execute("BEGIN; LOCK TABLE records IN ROW EXCLUSIVE MODE");
  const pid_t killed = fork();
  ASSERT_GE(killed, 0);
  if (killed == 0) {
    static_cast<void>(Migrator().Up());
    _exit(0);
  }
  // By the other session: the transaction would not see the view change.
  const std::string builds = absl::StrCat(
      "SELECT coalesce(string_agg(pid::text, ','), '') FROM pg_stat_activity"
      " WHERE query LIKE '%INDEX CONCURRENTLY%' AND ",
      schema_->Value("SELECT pg_backend_pid()"), " = ANY (pg_blocking_pids(pid))");
  std::string blocked;
  while (blocked.empty()) blocked = connection->ExecuteScript(builds)->Text(0, 0);
  EXPECT_EQ(holders(), "PID " + blocked);
  ASSERT_EQ(kill(killed, SIGKILL), 0);
  ASSERT_EQ(waitpid(killed, nullptr, 0), killed);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  while (!holders().empty()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  Execute("COMMIT");
  EXPECT_THAT(*Migrator().Up(), ElementsAre(8));
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM pg_index WHERE NOT indisvalid"
                           " AND indrelid = 'records'::regclass"),
            "0");
}

// An index over a very large table: cancelled, it would begin anew each time.
TEST_F(PostgresMigratorTest, OnlyWhatIsBuiltBesideTrafficMayTakeDays) {
  ASSERT_TRUE(Migrator().Up().ok());
  std::vector<Migration> migrations(AllMigrations().begin(), AllMigrations().end());
  Migration next;
  next.version = static_cast<int>(migrations.size()) + 1;
  next.name = "timeouts";
  next.up =
      "CREATE TABLE timeouts (at text, setting text);\n"
      "INSERT INTO timeouts SELECT 'a CONCURRENTLY built index', current_setting("
      "'statement_timeout');\n"
      "INSERT INTO timeouts SELECT 'after it', current_setting('statement_timeout');\n";
  next.down = "DROP TABLE timeouts;\n";
  next.serves_from = next.version;
  next.outside_transaction = true;
  migrations.push_back(next);
  const auto applied = PostgresMigrator(schema_->options(), migrations).Up();
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_THAT(*applied, ElementsAre(next.version));
  EXPECT_EQ(schema_->Value("SELECT string_agg(setting, ' ' ORDER BY at) FROM timeouts"),
            "7d 30min");
}

TEST_F(PostgresMigratorTest, NothingIsTakenBackWhileAStoreHasConnections) {
  ASSERT_TRUE(Migrator().Up().ok());
  auto store = PostgresStore::Create(schema_->options()).value();
  ASSERT_TRUE(store->Inspect().ok());
  const absl::Status refused = Migrator().Down(0).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("stop every idempotencyd first"));
  EXPECT_TRUE(store->Inspect().ok());
  store.reset();
  // Its connections end a moment later than the daemon.
  absl::StatusOr<std::vector<int>> taken_back = Migrator().Down(0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!taken_back.ok() && std::chrono::steady_clock::now() < deadline) {
    taken_back = Migrator().Down(0);
  }
  EXPECT_TRUE(taken_back.ok()) << taken_back.status();
}

TEST_F(PostgresMigratorTest, ARoleThatDoesNotOwnTheSchemaMayServeItOnceItIsGranted) {
  ASSERT_TRUE(Migrator().Up().ok());
  const std::string role = absl::StrCat("Reader \"", schema_->options().schema, "\"");
  const std::string quoted = absl::StrReplaceAll(role, {{"\"", "\"\""}});
  Execute(absl::StrCat("CREATE ROLE \"", quoted, "\""));
  const absl::Status granted = Migrator().GrantTo(role);
  EXPECT_TRUE(granted.ok()) << granted;
  Execute(absl::StrCat("SET ROLE \"", quoted, "\""));
  const PostgresStatements statements(schema_->options().clock_sql);
  for (const PostgresStatement* const statement : {&statements.probe_commit, &statements.inspect}) {
    const auto done = schema_->Execute(statement->sql);
    EXPECT_TRUE(done.ok()) << statement->name << done.status();
  }
  for (const char* const table : {"records", "checkpoints", "commit_probe"}) {
    for (const char* const right : {"SELECT", "INSERT", "UPDATE", "DELETE"}) {
      EXPECT_EQ(
          schema_->Value(absl::StrCat("SELECT has_table_privilege('", table, "', '", right, "')")),
          "t")
          << table << right;
    }
  }
  EXPECT_EQ(schema_->Value("SELECT has_table_privilege('schema_migrations', 'SELECT')"), "t");
  EXPECT_EQ(schema_->Value("SELECT has_table_privilege('schema_migrations', 'DELETE')"), "f");
  // Its administrators' acts stay as they were written, and under the same audit key.
  for (const auto& [table, rights] :
       std::map<std::string, std::string>{{"audit_log", "SELECT t,INSERT t,UPDATE f,DELETE f"},
                                          {"audit_key", "SELECT t,INSERT f,UPDATE f,DELETE f"}}) {
    EXPECT_EQ(
        schema_->Value(absl::StrCat(
            "SELECT string_agg(r || ' ' || left(has_table_privilege('", table,
            "', r)::text, 1), ',') FROM unnest(ARRAY['SELECT','INSERT','UPDATE','DELETE']) r")),
        rights)
        << table;
  }
  Execute(
      "INSERT INTO audit_log (at, actor, reason, action, forced, namespace, record_id, key_hmac,"
      " state, attempt) VALUES (now(), 'a', 'r', 3, false, 'n', gen_random_uuid(), sha256('k'), 2,"
      " 1)");
  Execute("RESET ROLE");
  // Also for the owner.
  for (const char* const change :
       {"UPDATE audit_log SET actor = 'b'", "DELETE FROM audit_log", "TRUNCATE audit_log"}) {
    EXPECT_FALSE(schema_->Execute(change).ok()) << change;
  }
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM audit_log WHERE actor = 'a'"), "1");
  Execute(absl::StrCat("DROP OWNED BY \"", quoted, "\"; DROP ROLE \"", quoted, "\""));
  EXPECT_EQ(Migrator().GrantTo("nobody-of-this-name").code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SchemaInUrlTest, IsThatOfTheSearchPath) {
  const auto of = [](const std::string& options) {
    return SchemaInUrl("postgresql://user@host/database?options=" + options);
  };
  EXPECT_EQ(SchemaInUrl("postgresql://user@host/database"), "");
  EXPECT_EQ(of("-csearch_path%3Dpayments"), "payments");
  EXPECT_EQ(of("-c%20search_path%3Dpayments%20-c%20work_mem%3D1MB"), "payments");
  EXPECT_EQ(of("--search_path%3Dpayments"), "payments");
  EXPECT_EQ(of("-c%20work_mem%3D1MB"), "");
  // The value of another keyword.
  EXPECT_EQ(SchemaInUrl("postgresql://user@host/database?application_name=--search_path%3Dother"),
            "");
  PostgresOptions options;
  options.url = "postgresql://host";
  options.schema = of("-csearch_path%3Dpayments,public");
  EXPECT_EQ(ValidatePostgresOptions(options).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PostgresMigratorTest, AForeignSchemaIsRefused) {
  Execute(absl::StrCat("CREATE SCHEMA ", schema_->options().schema));
  Execute("CREATE TABLE invoices (id integer)");
  ExpectRefused("no migration of this program created");
}

TEST_F(PostgresMigratorTest, AForeignHistoryIsRefused) {
  Execute(absl::StrCat("CREATE SCHEMA ", schema_->options().schema));
  Execute("CREATE TABLE schema_migrations (id text)");
  ExpectRefused("that this program did not create");
}

TEST_F(PostgresMigratorTest, AGapInTheHistoryIsRefused) {
  ASSERT_TRUE(Migrator().Up().ok());
  Execute("DELETE FROM schema_migrations WHERE version = 1");
  ExpectRefused("has migration 2 but lacks 1");
}

TEST_F(PostgresMigratorTest, AnEditedMigrationIsRefused) {
  ASSERT_TRUE(Migrator().Up().ok());
  Execute("UPDATE schema_migrations SET checksum = 'x' WHERE version = 2");
  ExpectRefused("whose text differs");
}

TEST_F(PostgresMigratorTest, AMissingTableOrColumnIsDetected) {
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
  EXPECT_THAT(std::string(status.message()), HasSubstr("2_bad failed and was rolled back"));
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM schema_migrations"), "1");
  EXPECT_EQ(schema_->Value("SELECT to_regclass('half') IS NULL"), "t");
}

// A connection that ends while the schema is read, and a statement that is cancelled, prove nothing
// about the schema.
TEST_F(PostgresMigratorTest, AReadThatIsInterruptedIsUnavailable) {
  ASSERT_TRUE(Migrator().Up().ok());
  PostgresOptions options = schema_->options();
  options.lock_timeout = absl::Minutes(1);
  for (const char* const table : {"schema_migrations", "records"}) {
    for (const char* const end : {"pg_terminate_backend", "pg_cancel_backend"}) {
      SCOPED_TRACE(absl::StrCat(table, " ", end));
      Execute(absl::StrCat("BEGIN; LOCK TABLE ", table, " IN ACCESS EXCLUSIVE MODE"));
      absl::Status checked;
      std::thread checks([&] {
        pthread_setname_np(pthread_self(), "checks");
        checked = PostgresMigrator(options).CheckSchema();
      });
      const std::string waiting =
          " FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
          " AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
      // A transaction sees the activity of the moment of its first read.
      while (schema_->Value("SELECT count(*)" + waiting) == "0") {
        Execute("SELECT pg_stat_clear_snapshot()");
      }
      Execute(absl::StrCat("SELECT ", end, "(pid)", waiting));
      checks.join();
      EXPECT_EQ(checked.code(), absl::StatusCode::kUnavailable) << checked;
      Execute("ROLLBACK");
    }
  }
  EXPECT_TRUE(Migrator().CheckSchema().ok());
}

TEST_F(PostgresMigratorTest, AnUnreachableServerIsUnavailable) {
  PostgresOptions options = schema_->options();
  options.url = "postgresql://nobody@/nowhere?host=%2Fnonexistent";
  EXPECT_EQ(PostgresMigrator(options).CheckSchema().code(), absl::StatusCode::kUnavailable);
  options.schema = "Robert'); DROP TABLE";
  EXPECT_EQ(PostgresMigrator(options).Up().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace idempotency::internal
