// The behaviour of a real Postgres on which the completion ledger depends.
#include "grpc_idempotency/ledger/postgres_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "interceptors/server/ledger/testing/sample_ledger_row.h"
#include "tests/support/pgbouncer_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

class PostgresLedgerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::PostgresSchemaOptions bare;
    bare.migrate = false;
    auto schema = testing::PostgresSchema::Create(Server(), bare);
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    Run(absl::StrCat("CREATE SCHEMA ", schema_->options().schema));
    application_ = std::make_unique<pqxx::connection>(Conninfo());
    Run(LedgerMigration("postgres/001_completions.up.sql"));
    Run("CREATE TABLE charges (key text)");
  }

  virtual std::string Server() { return testing::TestPostgresUrl(); }

  // The application's database: a schema of the test's.
  std::string Conninfo(const std::string& more_path = "") const {
    const std::string& url = schema_->options().url;
    return absl::StrCat(url, absl::StrContains(url, '?') ? "&" : "?", "options=-csearch_path%3D",
                        schema_->options().schema, more_path,
                        "&application_name=", schema_->options().schema);
  }
  void Run(const std::string& sql) {
    const auto done = schema_->Execute(sql);
    ASSERT_TRUE(done.ok()) << done.status();
  }
  absl::StatusOr<std::unique_ptr<PostgresLedger>> Open(const std::string& more_path = "") {
    PostgresLedgerOptions options;
    options.conninfo = Conninfo(more_path);
    options.statement_timeout = absl::Milliseconds(300);
    return PostgresLedger::Open(options);
  }
  // An effect and its row in one transaction.
  absl::Status Charge(const LedgerRow& row) {
    pqxx::work work(*application_);
    work.exec_params("INSERT INTO charges VALUES ($1)", row.record_key.key);
    const absl::Status recorded = InsertLedgerRow(work, row);
    // As a handler does that ignores the error.
    if (recorded.ok()) {
      work.commit();
    } else {
      EXPECT_THROW(work.commit(), std::exception);
    }
    return recorded;
  }
  std::string Charges() { return schema_->Value("SELECT count(*) FROM charges"); }

  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<pqxx::connection> application_;
};

TEST_F(PostgresLedgerTest, CommitsWithARow) {
  pqxx::nontransaction(*application_).exec("SET client_min_messages TO error");
  // As in the database's default, possibly.
  for (const std::string given : {"off", "local", "remote_write", "on", "remote_apply"}) {
    SCOPED_TRACE(given);
    pqxx::nontransaction(*application_).exec(absl::StrCat("SET synchronous_commit TO ", given));
    {
      pqxx::work work(*application_);
      work.exec("INSERT INTO charges VALUES ('x')");
      ASSERT_TRUE(InsertLedgerRow(work, SampleLedgerRow(given)).ok());
      // A trusted commit is durable, and the failure of a standby is reported.
      EXPECT_EQ(work.exec1("SHOW synchronous_commit")[0].as<std::string>(),
                given == "remote_apply" ? given : "on");
      EXPECT_EQ(work.exec1("SHOW client_min_messages")[0].as<std::string>(), "warning");
      const LedgerCommit commit = CommitLedgerTransaction(work, {});
      EXPECT_TRUE(commit.status().ok());
      EXPECT_TRUE(commit.known_committed());
    }
    pqxx::nontransaction after(*application_);
    EXPECT_EQ(after.exec1("SHOW synchronous_commit")[0].as<std::string>(), given);
    EXPECT_EQ(after.exec1("SHOW client_min_messages")[0].as<std::string>(), "error");
  }
  EXPECT_EQ(Charges(), "5");
}

// In each mode of a real pgbouncer: which one it is in cannot be seen from a session.
class PooledLedgerTest : public PostgresLedgerTest,
                         public ::testing::WithParamInterface<const char*> {};

TEST_P(PooledLedgerTest, IsRefusedAndChangesNoSession) {
  pqxx::connection& direct = *application_;
  const auto pooler = testing::PgbouncerProcess::Start(
      absl::StrCat("host=", direct.hostname(), " port=", direct.port(),
                   " user=", direct.username()),
      GetParam());
  ASSERT_TRUE(pooler.ok()) << pooler.status();
  PostgresLedgerOptions options;
  options.conninfo = (*pooler)->Url(direct.username(), direct.dbname());
  pqxx::connection other(options.conninfo);
  const auto timeout = [&] {
    return pqxx::nontransaction(other).exec1("SHOW statement_timeout")[0].as<std::string>();
  };
  const std::string before = timeout();
  const auto refused = PostgresLedger::Open(options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("goes through a pooler"));
  EXPECT_EQ(timeout(), before);
}

INSTANTIATE_TEST_SUITE_P(Modes, PooledLedgerTest, ::testing::Values("session", "transaction"));

TEST_F(PostgresLedgerTest, WithoutAPermitNothingIsCommitted) {
  pqxx::work work(*application_);
  work.exec("INSERT INTO charges VALUES ('x')");
  ASSERT_TRUE(InsertLedgerRow(work, SampleLedgerRow("order-1")).ok());
  LedgerCommitPermit late;
  late.status = MakeError(Reason::kReservationLost, "late");
  const LedgerCommit commit = CommitLedgerTransaction(work, late);
  EXPECT_EQ(ReasonOf(commit.status()), Reason::kReservationLost);
  EXPECT_FALSE(commit.known_committed());
  EXPECT_THROW(work.commit(), pqxx::usage_error);
  EXPECT_EQ(Charges(), "0");
}

TEST_F(PostgresLedgerTest, ARefusedCommitIsNotACommit) {
  Run("CREATE TABLE orders (id int PRIMARY KEY,"
      " parent int REFERENCES orders DEFERRABLE INITIALLY DEFERRED)");
  pqxx::work work(*application_);
  work.exec("INSERT INTO charges VALUES ('x')");
  work.exec("INSERT INTO orders VALUES (1, 7)");
  ASSERT_TRUE(InsertLedgerRow(work, SampleLedgerRow("order-1")).ok());
  const LedgerCommit commit = CommitLedgerTransaction(work, {});
  EXPECT_EQ(ReasonOf(commit.status()), Reason::kStoreUnavailable);
  EXPECT_FALSE(commit.known_committed());
  EXPECT_EQ(Charges(), "0");
}

// The application ignores an error of its own: the server rolls the transaction back.
TEST_F(PostgresLedgerTest, ACommitAfterAFailedStatementIsNotACommit) {
  for (const bool with_parameters : {false, true}) {
    pqxx::work work(*application_);
    work.exec("INSERT INTO charges VALUES ('x')");
    ASSERT_TRUE(InsertLedgerRow(work, SampleLedgerRow("order-1")).ok());
    if (with_parameters) {
      EXPECT_THROW(work.exec_params("SELECT $1::integer", "x"), pqxx::sql_error);
    } else {
      EXPECT_THROW(work.exec("SELECT 'x'::integer"), pqxx::sql_error);
    }
    const LedgerCommit commit = CommitLedgerTransaction(work, {});
    EXPECT_FALSE(commit.status().ok());
    EXPECT_FALSE(commit.known_committed());
    EXPECT_EQ(Charges(), "0");
  }
}

// The application ignores that the row of another attempt stands.
TEST_F(PostgresLedgerTest, ACommitAfterARowThatExistsIsNotACommit) {
  ASSERT_TRUE(Charge(SampleLedgerRow("order-1")).ok());
  const std::string charges = Charges();
  pqxx::work work(*application_);
  work.exec("INSERT INTO charges VALUES ('x')");
  EXPECT_EQ(ReasonOf(InsertLedgerRow(work, SampleLedgerRow("order-1"))), Reason::kReservationLost);
  EXPECT_THROW(work.commit(), std::exception);
  EXPECT_EQ(Charges(), charges);
}

TEST_F(PostgresLedgerTest, ACommitWithoutAnAnswerIsInDoubt) {
  pqxx::work work(*application_);
  work.exec("INSERT INTO charges VALUES ('x')");
  ASSERT_TRUE(InsertLedgerRow(work, SampleLedgerRow("order-1")).ok());
  const std::string pid = work.exec1("SELECT pg_backend_pid()")[0].as<std::string>();
  // Waits until the session has ended: the commit has no session.
  Run(absl::StrCat("SELECT pg_terminate_backend(", pid, ", 20000)"));
  const LedgerCommit commit = CommitLedgerTransaction(work, {});
  EXPECT_EQ(ReasonOf(commit.status()), Reason::kOutcomeNotRecorded);
  EXPECT_FALSE(commit.known_committed());
}

TEST_F(PostgresLedgerTest, FindsWhatIsCommitted) {
  const auto ledger = Open();
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  const LedgerRow row = SampleLedgerRow("order-1");
  EXPECT_FALSE((*ledger)->Find(row.record_id).value().has_value());
  ASSERT_TRUE(Charge(row).ok());
  const auto entry = (*ledger)->Find(row.record_id);
  ASSERT_TRUE(entry.ok() && entry->has_value()) << entry.status();
  EXPECT_EQ((*entry)->record_key, row.record_key);
  EXPECT_EQ(EncodeFingerprints((*entry)->fingerprints), row.fingerprints);
  EXPECT_EQ((*entry)->attempt, row.attempt);
  EXPECT_EQ(EncodeReply((*entry)->reply), row.reply);
  EXPECT_LT(absl::AbsDuration(absl::Now() - (*entry)->created_at), absl::Minutes(1));
}

TEST_F(PostgresLedgerTest, DoesNotSeeAnOpenTransaction) {
  const auto ledger = Open().value();
  const LedgerRow row = SampleLedgerRow("order-1");
  pqxx::work work(*application_);
  ASSERT_TRUE(InsertLedgerRow(work, row).ok());
  EXPECT_FALSE(ledger->Find(row.record_id).value().has_value());
  work.abort();
  EXPECT_FALSE(ledger->Find(row.record_id).value().has_value());
}

TEST_F(PostgresLedgerTest, ASecondCommitFailsWithItsEffects) {
  ASSERT_TRUE(Charge(SampleLedgerRow("order-1")).ok());
  const absl::Status again = Charge(SampleLedgerRow("order-1"));
  EXPECT_EQ(ReasonOf(again), Reason::kReservationLost);
  EXPECT_EQ(again.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Charges(), "1");
}

TEST_F(PostgresLedgerTest, WaitsForAnOpenTransactionOfTheSameRow) {
  for (const bool commits : {true, false}) {
    const LedgerRow row = SampleLedgerRow(commits ? "commits" : "aborts");
    pqxx::connection other(Conninfo());
    pqxx::work first(other);
    ASSERT_TRUE(InsertLedgerRow(first, row).ok());
    auto second = std::async(std::launch::async, [&] { return Charge(row); });
    // Until it waits.
    while (schema_->Value("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype ="
                          " 'transactionid'") == "0") {
      ASSERT_EQ(second.wait_for(std::chrono::milliseconds(5)), std::future_status::timeout);
    }
    if (commits) {
      first.commit();
    } else {
      first.abort();
    }
    EXPECT_EQ(second.get().ok(), !commits);
  }
  EXPECT_EQ(Charges(), "1");
}

TEST_F(PostgresLedgerTest, ARefusedRowMakesItsTransactionFail) {
  pqxx::work work(*application_);
  work.exec("INSERT INTO charges VALUES ('x')");
  EXPECT_EQ(InsertLedgerRow(work, absl::AbortedError("the lease is over")).code(),
            absl::StatusCode::kAborted);
  EXPECT_THROW(work.commit(), std::exception);
  EXPECT_EQ(Charges(), "0");
}

TEST_F(PostgresLedgerTest, RefusesWhatIsNotUndoneAsAWhole) {
  const LedgerRow row = SampleLedgerRow("order-1");
  {
    pqxx::nontransaction alone(*application_);
    EXPECT_EQ(InsertLedgerRow(alone, row).code(), absl::StatusCode::kFailedPrecondition);
  }
  pqxx::work work(*application_);
  pqxx::subtransaction part(work);
  EXPECT_EQ(InsertLedgerRow(part, row).code(), absl::StatusCode::kFailedPrecondition);
  part.commit();
  work.commit();
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM idempotency_completions"), "0");
}

TEST_F(PostgresLedgerTest, RefusesADatabaseWithoutTheTable) {
  Run(LedgerMigration("postgres/001_completions.down.sql"));
  const absl::Status refused = Open().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("migrations/postgres"));
}

TEST_F(PostgresLedgerTest, RefusesAKeyThatWouldStopNothing) {
  for (const char* key : {"", "ADD PRIMARY KEY (record_id, created_at)",
                          "ADD PRIMARY KEY (record_id) DEFERRABLE INITIALLY DEFERRED"}) {
    Run("ALTER TABLE idempotency_completions DROP CONSTRAINT IF EXISTS"
        " idempotency_completions_pkey");
    if (*key != '\0') Run(absl::StrCat("ALTER TABLE idempotency_completions ", key));
    const absl::Status refused = Open().status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << key;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("second effect"));
  }
}

TEST_F(PostgresLedgerTest, AReplicaIsNoAnswer) {
  const auto ledger = Open(",pg_catalog").value();
  EXPECT_TRUE(ledger->Find(SampleLedgerRow("order-1").record_id).ok());
  // It precedes the server's own function in the search path.
  Run("CREATE FUNCTION pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'");
  const auto replica = Open(",pg_catalog").value();
  EXPECT_EQ(ReasonOf(replica->Find(SampleLedgerRow("order-1").record_id).status()),
            Reason::kStoreUnavailable);
}

TEST_F(PostgresLedgerTest, ALostSessionIsReplaced) {
  const auto ledger = Open().value();
  const LedgerRow row = SampleLedgerRow("order-1");
  ASSERT_TRUE(Charge(row).ok());
  application_.reset();
  Run(
      absl::StrCat("SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity"
                   " WHERE application_name = '",
                   schema_->options().schema, "'"));
  EXPECT_TRUE(ledger->Find(row.record_id).value().has_value());
}

TEST_F(PostgresLedgerTest, AQuestionEndsInTime) {
  const auto ledger = Open().value();
  pqxx::work work(*application_);
  work.exec("LOCK TABLE idempotency_completions IN ACCESS EXCLUSIVE MODE");
  EXPECT_EQ(ReasonOf(ledger->Find(SampleLedgerRow("order-1").record_id).status()),
            Reason::kStoreUnavailable);
  work.abort();
  EXPECT_TRUE(ledger->Find(SampleLedgerRow("order-1").record_id).ok());
}

TEST_F(PostgresLedgerTest, ADamagedRowIsNoAnswer) {
  const auto ledger = Open().value();
  const LedgerRow row = SampleLedgerRow("order-1");
  ASSERT_TRUE(Charge(row).ok());
  Run("UPDATE idempotency_completions SET reply = 'x'");
  EXPECT_EQ(ReasonOf(ledger->Find(row.record_id).status()), Reason::kRecordDamaged);
}

TEST_F(PostgresLedgerTest, SweepsOnlyUnneededRows) {
  const auto ledger = Open().value();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Charge(SampleLedgerRow(absl::StrCat("old-", i), absl::Microseconds(1))).ok());
  }
  ASSERT_TRUE(Charge(SampleLedgerRow("new")).ok());
  EXPECT_EQ(ledger->Sweep(3).value(), 3);
  EXPECT_EQ(ledger->Sweep(3).value(), 2);
  EXPECT_EQ(ledger->Sweep(3).value(), 0);
  EXPECT_TRUE(ledger->Find(SampleLedgerRow("new").record_id).value().has_value());
}

TEST_F(PostgresLedgerTest, TheDefaultsAreThoseThatAreDocumented) {
  const PostgresLedgerOptions options;
  EXPECT_EQ(options.connections, 8);
  EXPECT_EQ(options.connect_timeout, absl::Seconds(2));
  EXPECT_EQ(options.statement_timeout, absl::Seconds(2));
}

TEST_F(PostgresLedgerTest, NumbersAndTimeoutsHaveBounds) {
  PostgresLedgerOptions options;
  options.conninfo = Conninfo();
  options.connections = 1;
  options.connect_timeout = absl::Nanoseconds(1);
  options.statement_timeout = absl::Milliseconds(1);
  EXPECT_NE(PostgresLedger::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
  const auto expect_refused = [](const PostgresLedgerOptions& wrong) {
    EXPECT_EQ(PostgresLedger::Open(wrong).status().code(), absl::StatusCode::kInvalidArgument);
  };
  PostgresLedgerOptions wrong = options;
  wrong.connections = 0;
  expect_refused(wrong);
  wrong = options;
  wrong.connect_timeout = absl::ZeroDuration();
  expect_refused(wrong);
  wrong = options;
  wrong.statement_timeout = absl::Microseconds(999);
  expect_refused(wrong);
}

TEST_F(PostgresLedgerTest, RefusesOtherKeysThatWouldStopNothing) {
  Run("ALTER TABLE idempotency_completions DROP CONSTRAINT idempotency_completions_pkey");
  // A key of another table does not count.
  Run("CREATE TABLE others (record_id uuid PRIMARY KEY)");
  for (const char* const key :
       {"CREATE INDEX loose ON idempotency_completions (record_id)",
        "CREATE UNIQUE INDEX loose ON idempotency_completions (record_id) WHERE attempt > 5",
        "CREATE UNIQUE INDEX loose ON idempotency_completions (key)"}) {
    Run(key);
    EXPECT_THAT(std::string(Open().status().message()), HasSubstr("second effect")) << key;
    Run("DROP INDEX loose");
  }
  // An index that could not be completed, since there are two rows already.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Charge(SampleLedgerRow("twice")).ok());
  EXPECT_FALSE(schema_
                   ->Execute("CREATE UNIQUE INDEX CONCURRENTLY loose ON idempotency_completions"
                             " (record_id)")
                   .ok());
  ASSERT_EQ(schema_->Value("SELECT indisvalid FROM pg_index WHERE indexrelid = 'loose'::regclass"),
            "f");
  EXPECT_THAT(std::string(Open().status().message()), HasSubstr("second effect"));
}

TEST_F(PostgresLedgerTest, TheConninfosSettingsApplyExceptThoseTheLedgerRequires) {
  PostgresLedgerOptions options;
  options.conninfo = absl::StrCat(Conninfo(), "%27s%5C&client_encoding=LATIN1");
  const auto ledger = PostgresLedger::Open(options);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_EQ(schema_->Value(absl::StrCat("SELECT count(*) FROM pg_stat_activity WHERE"
                                        " application_name = '",
                                        schema_->options().schema, "''s\\'")),
            "1");
  // The scope contains a character that is two bytes in UTF-8, and one in that encoding.
  const LedgerRow row = SampleLedgerRow("order-1");
  ASSERT_TRUE(Charge(row).ok());
  EXPECT_EQ((*ledger)->Find(row.record_id).value().value().record_key, row.record_key);
}

TEST_F(PostgresLedgerTest, AKeyIsTheSameWhateverTheApplicationsEncodingIs) {
  const auto ledger = Open();
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  // The second byte of the character is none of WIN1252.
  for (const std::string encoding : {"LATIN1", "WIN1252"}) {
    application_->set_client_encoding(encoding);
    LedgerRow row = SampleLedgerRow(encoding);
    row.record_key.scope = "CN=\xc3\x81";
    row.record_id = RecordIdFor(row.record_key);
    ASSERT_TRUE(Charge(row).ok()) << encoding;
    EXPECT_EQ((*ledger)->Find(row.record_id).value().value().record_key, row.record_key);
  }
}

// Whatever the login's default is. Rows are there only for a session that has it so.
TEST_F(PostgresLedgerTest, FailedStatementsLogNoParameters) {
  const auto ledger = Open("%20-clog_parameter_max_length_on_error%3D-1");
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  const LedgerRow row = SampleLedgerRow("order-1");
  ASSERT_TRUE(Charge(row).ok());
  Run("ALTER TABLE idempotency_completions RENAME TO kept");
  Run("CREATE VIEW idempotency_completions AS SELECT * FROM kept"
      " WHERE current_setting('log_parameter_max_length_on_error') = '0'");
  const auto found = (*ledger)->Find(row.record_id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->has_value());
}

TEST_F(PostgresLedgerTest, TheServerGetsTheApplicationName) {
  PostgresLedgerOptions options;
  options.conninfo = Conninfo();
  options.conninfo.resize(options.conninfo.find("&application_name="));
  const auto ledger = PostgresLedger::Open(options);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_NE(schema_->Value("SELECT count(*) FROM pg_stat_activity WHERE application_name ="
                           " 'idempotency-ledger'"),
            "0");
}

TEST_F(PostgresLedgerTest, AServerThatTakesNoWritesIsNotOpened) {
  PostgresLedgerOptions options;
  options.conninfo = Conninfo("%20-cdefault_transaction_read_only%3Don");
  EXPECT_EQ(PostgresLedger::Open(options).status().code(), absl::StatusCode::kUnavailable);
}

// A failed session is not used again; any other is.
TEST_F(PostgresLedgerTest, ASessionIsKeptUntilAQuestionFails) {
  const auto ledger = Open().value();
  const auto sessions = [this] {
    return schema_->Value(
        absl::StrCat("SELECT coalesce(string_agg(pid::text, ','), '') FROM pg_stat_activity"
                     " WHERE application_name = '",
                     schema_->options().schema, "' AND pid <> ", application_->backendpid()));
  };
  const RecordId id = SampleLedgerRow("order-1").record_id;
  ASSERT_TRUE(ledger->Find(id).ok());
  const std::string first = sessions();
  ASSERT_NE(first, "");
  ASSERT_TRUE(ledger->Find(id).ok());
  EXPECT_EQ(sessions(), first);
  {
    pqxx::work work(*application_);
    work.exec("LOCK TABLE idempotency_completions IN ACCESS EXCLUSIVE MODE");
    EXPECT_EQ(ReasonOf(ledger->Find(id).status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(ledger->Sweep().status()), Reason::kStoreUnavailable);
  }
  ASSERT_TRUE(ledger->Find(id).ok());
  // The session of the failed lookup ends a moment later.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (sessions().find(first) != std::string::npos &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(sessions().find(first), std::string::npos);
}

TEST_F(PostgresLedgerTest, ARowWithDamagedColumnsIsNoAnswer) {
  const auto ledger = Open().value();
  Run("ALTER TABLE idempotency_completions DROP CONSTRAINT"
      " idempotency_completions_reply_digest_check");
  for (const char* const damage :
       {"fingerprints = 'x'", "reply_digest = 'x'",
        "reply_digest = decode(repeat('00', 65536), 'hex')", "reply = ''"}) {
    const LedgerRow row = SampleLedgerRow(damage);
    ASSERT_TRUE(Charge(row).ok());
    Run(absl::StrCat("UPDATE idempotency_completions SET ", damage));
    EXPECT_EQ(ReasonOf(ledger->Find(row.record_id).status()), Reason::kRecordDamaged) << damage;
    Run("DELETE FROM idempotency_completions");
  }
}

TEST_F(PostgresLedgerTest, ASweepTakesAThousandRowsByDefault) {
  const auto ledger = Open().value();
  Run("INSERT INTO idempotency_completions SELECT gen_random_uuid(), 'n', 's', 'o', 'k', 'f', 1,"
      " 'r', sha256('r'), now() - interval '2 days', now() - interval '1 day'"
      " FROM generate_series(1, 1001)");
  EXPECT_EQ(ledger->Sweep().value(), 1000);
  EXPECT_EQ(ledger->Sweep().value(), 1);
}

// The application's own warning leaves the outcome to the ledger, and still reaches the other
// error handlers of the application's connection.
TEST_F(PostgresLedgerTest, AWarningDuringTheCommitReachesTheApplicationToo) {
  Run("CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$"
      " BEGIN RAISE WARNING 'careful'; RETURN NULL; END $$;"
      "CREATE CONSTRAINT TRIGGER warns AFTER INSERT ON charges DEFERRABLE INITIALLY DEFERRED"
      " FOR EACH ROW EXECUTE FUNCTION warn()");
  class Listener final : public pqxx::errorhandler {
   public:
    using errorhandler::errorhandler;
    bool operator()(const char message[]) noexcept override {
      notices += message;
      return true;
    }
    std::string notices;
  };
  Listener listener(*application_);
  pqxx::work work(*application_);
  work.exec("INSERT INTO charges VALUES ('x')");
  ASSERT_TRUE(InsertLedgerRow(work, SampleLedgerRow("order-1")).ok());
  const LedgerCommit commit = CommitLedgerTransaction(work, {});
  EXPECT_TRUE(commit.status().ok());
  EXPECT_FALSE(commit.known_committed());
  EXPECT_THAT(listener.notices, HasSubstr("careful"));
  EXPECT_EQ(Charges(), "1");
}

// Commits wait for a standby that does not exist, until they are cancelled.
class PostgresLedgerStandbyTest : public PostgresLedgerTest {
 protected:
  std::string Server() override {
    auto cluster = testing::PostgresCluster::Create();
    if (!cluster.ok()) std::abort();
    cluster_ = *std::move(cluster);
    return cluster_->url();
  }
  void TearDown() override {
    application_.reset();
    schema_.reset();
  }

  void SetStandbys(const std::string& names) {
    Run("SET synchronous_commit TO local");
    Run(absl::StrCat("ALTER SYSTEM SET synchronous_standby_names TO '", names, "'"));
    Run("SELECT pg_reload_conf()");
    // Existing sessions get the setting with a delay, new ones at once.
    std::string seen;
    do {
      application_ = std::make_unique<pqxx::connection>(Conninfo());
      pqxx::nontransaction look(*application_);
      seen = look.exec1("SHOW synchronous_standby_names")[0].as<std::string>();
    } while (seen != names);
  }
  // Runs it in a thread until it waits for the standby, and interrupts the wait. False: it did not
  // wait.
  template <typename Call>
  [[nodiscard]] bool Cancelled(Call call) {
    std::thread caller([&] {
      pthread_setname_np(pthread_self(), "caller");
      call();
    });
    const bool waited = AwaitTheWait();
    Run("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    caller.join();
    return waited;
  }
  bool AwaitTheWait() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (schema_->Value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") ==
           "0") {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::unique_ptr<testing::PostgresCluster> cluster_;
};

TEST_F(PostgresLedgerStandbyTest, ARowThatTheStandbyDidNotConfirmIsNoAnswer) {
  SetStandbys("nobody");
  const auto ledger = Open().value();
  const LedgerRow row = SampleLedgerRow("order-1");
  ASSERT_TRUE(Cancelled(
      [&] { EXPECT_TRUE(Charge(row).ok()) << "a warning is all that the handler gets"; }));
  absl::StatusOr<std::optional<LedgerEntry>> found = std::nullopt;
  ASSERT_TRUE(Cancelled([&] { found = ledger->Find(row.record_id); }));
  EXPECT_EQ(ReasonOf(found.status()), Reason::kStoreUnavailable);
  // No row was read, so there is nothing to confirm.
  EXPECT_FALSE(ledger->Find(SampleLedgerRow("order-2").record_id).value().has_value());

  SetStandbys("");
  EXPECT_TRUE(Open().value()->Find(row.record_id).value().has_value());
}

// The lookup waits for the standby all the same, and the failure of its wait is reported.
TEST_F(PostgresLedgerStandbyTest, NorIsItWithWeakerDefaultsOfTheLogin) {
  Run("ALTER ROLE CURRENT_USER SET synchronous_commit TO local");
  Run("ALTER ROLE CURRENT_USER SET client_min_messages TO error");
  SetStandbys("nobody");
  const auto ledger = Open().value();
  const LedgerRow row = SampleLedgerRow("order-1");
  ASSERT_TRUE(Cancelled([&] { EXPECT_TRUE(Charge(row).ok()); }));
  absl::StatusOr<std::optional<LedgerEntry>> found = std::nullopt;
  ASSERT_TRUE(Cancelled([&] { found = ledger->Find(row.record_id); }));
  EXPECT_EQ(ReasonOf(found.status()), Reason::kStoreUnavailable);
  SetStandbys("");
}

TEST_F(PostgresLedgerStandbyTest, ACommitThatTheStandbyDidNotConfirmIsUnknown) {
  SetStandbys("nobody");
  {
    pqxx::nontransaction deaf(*application_);
    deaf.exec("SET client_min_messages TO error");
    deaf.exec("SET synchronous_commit TO local");
  }
  LedgerCommit commit = LedgerCommit::Committed();
  ASSERT_TRUE(Cancelled([&] {
    pqxx::work work(*application_);
    ASSERT_TRUE(InsertLedgerRow(work, SampleLedgerRow("order-1")).ok());
    commit = CommitLedgerTransaction(work, {});
  }));
  EXPECT_TRUE(commit.status().ok());
  EXPECT_FALSE(commit.known_committed());
  SetStandbys("");
}

TEST_F(PostgresLedgerStandbyTest, ADatabaseThatGoesAwayGivesNoAnswer) {
  const auto ledger = Open().value();
  const RecordId id = SampleLedgerRow("order-1").record_id;
  ASSERT_TRUE(ledger->Find(id).ok());
  ASSERT_TRUE(cluster_->StopImmediate().ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ledger->Find(id).status().code(), absl::StatusCode::kUnavailable) << i;
    EXPECT_EQ(ledger->Sweep().status().code(), absl::StatusCode::kUnavailable) << i;
  }
  ASSERT_TRUE(cluster_->Start().ok());
}

TEST_F(PostgresLedgerTest, ADatabaseThatIsNotThereIsUnavailable) {
  PostgresLedgerOptions options;
  options.conninfo = "host=/nowhere";
  EXPECT_EQ(PostgresLedger::Open(options).status().code(), absl::StatusCode::kUnavailable);
  options.conninfo = "postgresql://[";
  EXPECT_EQ(PostgresLedger::Open(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace idempotency::internal
