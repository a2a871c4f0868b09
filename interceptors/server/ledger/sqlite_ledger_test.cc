#include "grpc_idempotency/ledger/sqlite_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "interceptors/server/ledger/testing/sample_ledger_row.h"
#include "tests/support/blocking_call.h"
#include "tests/support/temp_folder.h"

namespace {
std::atomic<int> syncs{0};
}  // namespace

// Replaces the C library's function, with which SQLite writes its files to the disk.
extern "C" int fdatasync(int descriptor) {
  ++syncs;
  return static_cast<int>(syscall(SYS_fdatasync, descriptor));
}

namespace idempotency::internal {
namespace {

using testing::BlockingCall;
using ::testing::HasSubstr;

class SqliteLedgerTest : public ::testing::Test {
 protected:
  SqliteLedgerTest() {
    EXPECT_EQ(sqlite3_open(path_.c_str(), &application_), SQLITE_OK);
    Run("PRAGMA journal_mode = WAL");
    Run(LedgerMigration("sqlite/001_completions.up.sql"));
    Run("CREATE TABLE charges (key TEXT)");
  }
  ~SqliteLedgerTest() override { sqlite3_close(application_); }

  // The result code.
  int Try(const std::string& sql) {
    return sqlite3_exec(application_, sql.c_str(), nullptr, nullptr, nullptr);
  }
  void Run(const std::string& sql) {
    EXPECT_EQ(Try(sql), SQLITE_OK) << sqlite3_errmsg(application_);
  }
  // An effect and its row in one transaction; commits without checking the result.
  absl::Status Charge(const LedgerRow& row) {
    Run("BEGIN IMMEDIATE; INSERT INTO charges VALUES ('x')");
    const absl::Status recorded = InsertLedgerRow(application_, row);
    Try("COMMIT");
    return recorded;
  }
  int Charges() {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(application_, "SELECT count(*) FROM charges", -1, &statement, nullptr);
    sqlite3_step(statement);
    const int count = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return count;
  }

  const testing::TempFolder folder_;
  const std::string path_ = folder_.File("shop.db");
  sqlite3* application_ = nullptr;
};

TEST_F(SqliteLedgerTest, FindsWhatIsCommitted) {
  const auto ledger = SqliteLedger::Open(path_).value();
  const LedgerRow row = SampleLedgerRow("order-1");
  EXPECT_FALSE(ledger->Find(row.record_id).value().has_value());
  ASSERT_TRUE(Charge(row).ok());
  const auto entry = ledger->Find(row.record_id);
  ASSERT_TRUE(entry.ok() && entry->has_value()) << entry.status();
  EXPECT_EQ((*entry)->record_key, row.record_key);
  EXPECT_EQ(EncodeFingerprints((*entry)->fingerprints), row.fingerprints);
  EXPECT_EQ((*entry)->attempt, row.attempt);
  EXPECT_EQ(EncodeReply((*entry)->reply), row.reply);
  EXPECT_LT(absl::AbsDuration(absl::Now() - (*entry)->created_at), absl::Minutes(1));
}

// As a process leaves them that was killed before it synced a commit. Otherwise a crash of the
// machine removes effects and row, and the reply of them stays.
TEST_F(SqliteLedgerTest, WhatIsRecoveredFromTheLogIsSyncedBeforeItIsFound) {
  const LedgerRow row = SampleLedgerRow("order-1");
  ASSERT_TRUE(Charge(row).ok());
  const std::string recovered = folder_.File("recovered.db");
  for (const char* const suffix : {"", "-wal"}) {
    std::filesystem::copy_file(path_ + suffix, recovered + suffix);
  }
  const int before = syncs;
  const auto ledger = SqliteLedger::Open(recovered);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_GT(syncs, before);
  EXPECT_TRUE((*ledger)->Find(row.record_id).value().has_value());
}

TEST_F(SqliteLedgerTest, OpensAFileWithARollbackJournal) {
  Run("PRAGMA journal_mode = DELETE");
  const LedgerRow row = SampleLedgerRow("order-1");
  ASSERT_TRUE(Charge(row).ok());
  const auto ledger = SqliteLedger::Open(path_);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_TRUE((*ledger)->Find(row.record_id).value().has_value());
}

TEST_F(SqliteLedgerTest, CommitsWithARow) {
  Run("BEGIN IMMEDIATE; INSERT INTO charges VALUES ('x')");
  ASSERT_TRUE(InsertLedgerRow(application_, SampleLedgerRow("order-1")).ok());
  const LedgerCommit commit = CommitLedgerTransaction(application_, {});
  EXPECT_TRUE(commit.status().ok());
  EXPECT_TRUE(commit.known_committed());
  EXPECT_EQ(Charges(), 1);
}

TEST_F(SqliteLedgerTest, WithoutAPermitNothingIsCommitted) {
  Run("BEGIN IMMEDIATE; INSERT INTO charges VALUES ('x')");
  ASSERT_TRUE(InsertLedgerRow(application_, SampleLedgerRow("order-1")).ok());
  LedgerCommitPermit late;
  late.status = MakeError(Reason::kReservationLost, "late");
  const LedgerCommit commit = CommitLedgerTransaction(application_, late);
  EXPECT_EQ(ReasonOf(commit.status()), Reason::kReservationLost);
  EXPECT_FALSE(commit.known_committed());
  EXPECT_NE(Try("COMMIT"), SQLITE_OK);
  EXPECT_EQ(Charges(), 0);
}

TEST_F(SqliteLedgerTest, ACommitThatFailsIsRolledBack) {
  Run("PRAGMA foreign_keys = ON");
  Run("CREATE TABLE orders (id INTEGER PRIMARY KEY,"
      " parent INTEGER REFERENCES orders DEFERRABLE INITIALLY DEFERRED)");
  Run("BEGIN IMMEDIATE; INSERT INTO charges VALUES ('x'); INSERT INTO orders VALUES (1, 7)");
  ASSERT_TRUE(InsertLedgerRow(application_, SampleLedgerRow("order-1")).ok());
  const LedgerCommit commit = CommitLedgerTransaction(application_, {});
  EXPECT_EQ(ReasonOf(commit.status()), Reason::kStoreUnavailable);
  EXPECT_FALSE(commit.known_committed());
  EXPECT_EQ(Charges(), 0);
  EXPECT_EQ(Try("COMMIT"), SQLITE_ERROR) << "the transaction is still open";
}

// A crash between the commits of two files would leave one of them.
TEST_F(SqliteLedgerTest, ATransactionOverTwoFilesIsRefused) {
  Run(absl::StrCat("ATTACH '", folder_.File("other.db"), "' AS other"));
  Run("CREATE TABLE other.charges (key TEXT)");
  Run("BEGIN; INSERT INTO other.charges VALUES ('x')");
  const absl::Status recorded = InsertLedgerRow(application_, SampleLedgerRow("order-1"));
  EXPECT_EQ(recorded.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(recorded.message()), HasSubstr("more than one file"));
  EXPECT_EQ(Try("COMMIT"), SQLITE_ERROR) << "the transaction is still open";

  Run("BEGIN");
  ASSERT_TRUE(InsertLedgerRow(application_, SampleLedgerRow("order-1")).ok());
  Run("INSERT INTO other.charges VALUES ('x')");
  const LedgerCommit commit = CommitLedgerTransaction(application_, {});
  EXPECT_EQ(commit.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(commit.known_committed());
  EXPECT_EQ(Try("COMMIT"), SQLITE_ERROR) << "the transaction is still open";

  // Files that are read, and databases in memory, are no matter.
  Run("ATTACH ':memory:' AS memory; CREATE TABLE memory.notes (key TEXT)");
  Run("BEGIN; INSERT INTO memory.notes VALUES ('x');"
      "INSERT INTO main.charges SELECT count(*) FROM other.charges");
  ASSERT_TRUE(InsertLedgerRow(application_, SampleLedgerRow("order-1")).ok());
  EXPECT_TRUE(CommitLedgerTransaction(application_, {}).known_committed());
}

TEST_F(SqliteLedgerTest, DoesNotSeeAnOpenTransaction) {
  const auto ledger = SqliteLedger::Open(path_).value();
  const LedgerRow row = SampleLedgerRow("order-1");
  Run("BEGIN");
  ASSERT_TRUE(InsertLedgerRow(application_, row).ok());
  EXPECT_FALSE(ledger->Find(row.record_id).value().has_value());
  Run("ROLLBACK");
  EXPECT_FALSE(ledger->Find(row.record_id).value().has_value());
}

TEST_F(SqliteLedgerTest, ASecondCommitFailsWithItsEffects) {
  ASSERT_TRUE(Charge(SampleLedgerRow("order-1")).ok());
  const absl::Status again = Charge(SampleLedgerRow("order-1"));
  EXPECT_EQ(ReasonOf(again), Reason::kReservationLost);
  EXPECT_EQ(again.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Charges(), 1);
}

TEST_F(SqliteLedgerTest, ARefusedRowRollsItsTransactionBack) {
  Run("BEGIN; INSERT INTO charges VALUES ('x')");
  EXPECT_EQ(InsertLedgerRow(application_, absl::AbortedError("the lease is over")).code(),
            absl::StatusCode::kAborted);
  EXPECT_NE(Try("COMMIT"), SQLITE_OK);
  EXPECT_EQ(Charges(), 0);
}

TEST_F(SqliteLedgerTest, ARowThatCannotBeWrittenRollsItsTransactionBack) {
  Run("BEGIN; INSERT INTO charges VALUES ('x'); DROP TABLE idempotency_completions");
  EXPECT_EQ(ReasonOf(InsertLedgerRow(application_, SampleLedgerRow("order-1"))),
            Reason::kStoreUnavailable);
  EXPECT_EQ(Charges(), 0);
}

TEST_F(SqliteLedgerTest, NeedsAnOpenTransaction) {
  EXPECT_EQ(InsertLedgerRow(application_, SampleLedgerRow("order-1")).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(SqliteLedgerTest, RefusesAFileWithoutTheTable) {
  Run(LedgerMigration("sqlite/001_completions.down.sql"));
  const absl::Status refused = SqliteLedger::Open(path_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("migrations/sqlite"));
  EXPECT_EQ(ReasonOf(SqliteLedger::Open(folder_.File("none.db")).status()),
            Reason::kStoreUnavailable);
}

TEST_F(SqliteLedgerTest, RefusesAKeyThatWouldStopNothing) {
  Run("CREATE TABLE copy AS SELECT * FROM idempotency_completions;"
      "DROP TABLE idempotency_completions;"
      "ALTER TABLE copy RENAME TO idempotency_completions;"
      "CREATE UNIQUE INDEX wide ON idempotency_completions (record_id, created_at)");
  EXPECT_THAT(std::string(SqliteLedger::Open(path_).status().message()),
              HasSubstr("second effect"));
}

// Each of these would allow a second row of one operation.
TEST_F(SqliteLedgerTest, RefusesOtherKeysThatWouldStopNothing) {
  Run("CREATE TABLE copy AS SELECT * FROM idempotency_completions;"
      "DROP TABLE idempotency_completions;"
      "ALTER TABLE copy RENAME TO idempotency_completions");
  for (const char* const key :
       {"CREATE INDEX loose ON idempotency_completions (record_id)",
        "CREATE UNIQUE INDEX loose ON idempotency_completions (record_id) WHERE attempt > 5",
        "CREATE UNIQUE INDEX loose ON idempotency_completions (key)"}) {
    Run(key);
    EXPECT_THAT(std::string(SqliteLedger::Open(path_).status().message()),
                HasSubstr("second effect"))
        << key;
    Run("DROP INDEX loose");
  }
  Run("CREATE UNIQUE INDEX loose ON idempotency_completions (record_id)");
  EXPECT_TRUE(SqliteLedger::Open(path_).ok());
}

TEST_F(SqliteLedgerTest, AFileThatIsNoDatabaseGivesNoAnswer) {
  const std::string other = folder_.File("text.db");
  std::ofstream(other) << std::string(4096, 'x');
  EXPECT_EQ(ReasonOf(SqliteLedger::Open(other).status()), Reason::kStoreUnavailable);
}

TEST_F(SqliteLedgerTest, TheDefaultsAreThoseThatAreDocumented) {
  EXPECT_EQ(SqliteLedgerOptions().busy_timeout, absl::Seconds(2));
}

TEST_F(SqliteLedgerTest, AQuestionWaitsForAWriterAsLongAsItMay) {
  Run("PRAGMA journal_mode = DELETE");
  const LedgerRow row = SampleLedgerRow("order-1");
  ASSERT_TRUE(Charge(row).ok());
  SqliteLedgerOptions options;
  options.busy_timeout = absl::Seconds(20);
  const auto patient = SqliteLedger::Open(path_, options).value();
  options.busy_timeout = absl::Milliseconds(1);
  const auto hasty = SqliteLedger::Open(path_, options).value();
  Run("BEGIN EXCLUSIVE");
  EXPECT_EQ(ReasonOf(hasty->Find(row.record_id).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(hasty->Sweep().status()), Reason::kStoreUnavailable);
  BlockingCall<bool> finds([&] { return patient->Find(row.record_id).value().has_value(); });
  EXPECT_TRUE(finds.AwaitBlocked());
  Run("COMMIT");
  EXPECT_TRUE(finds.Get());
}

// A transaction that the handler ended itself cannot be committed: only the ledger can show its
// outcome.
TEST_F(SqliteLedgerTest, ACommitOfWhatIsNotOpenAnyMoreIsInDoubt) {
  Run("BEGIN IMMEDIATE; INSERT INTO charges VALUES ('x')");
  ASSERT_TRUE(InsertLedgerRow(application_, SampleLedgerRow("order-1")).ok());
  Run("COMMIT");
  const LedgerCommit commit = CommitLedgerTransaction(application_, {});
  EXPECT_EQ(ReasonOf(commit.status()), Reason::kOutcomeNotRecorded);
  EXPECT_FALSE(commit.known_committed());
}

TEST_F(SqliteLedgerTest, ARowWithDamagedColumnsIsNoAnswer) {
  const auto ledger = SqliteLedger::Open(path_).value();
  Run("PRAGMA ignore_check_constraints = ON");
  for (const char* const damage : {"fingerprints = x'ff'", "reply_digest = x'00'",
                                   "reply_digest = zeroblob(65536)", "reply = x''"}) {
    const LedgerRow row = SampleLedgerRow(damage);
    ASSERT_TRUE(Charge(row).ok());
    Run(absl::StrCat("UPDATE idempotency_completions SET ", damage));
    EXPECT_EQ(ReasonOf(ledger->Find(row.record_id).status()), Reason::kRecordDamaged) << damage;
    Run("DELETE FROM idempotency_completions");
  }
}

TEST_F(SqliteLedgerTest, ASweepTakesAThousandRowsByDefault) {
  const auto ledger = SqliteLedger::Open(path_).value();
  Run("BEGIN");
  for (int i = 0; i < 1001; ++i) {
    ASSERT_TRUE(InsertLedgerRow(application_,
                                SampleLedgerRow(absl::StrCat("old-", i), absl::Microseconds(1)))
                    .ok());
  }
  Run("COMMIT");
  EXPECT_EQ(ledger->Sweep().value(), 1000);
  EXPECT_EQ(ledger->Sweep().value(), 1);
}

TEST_F(SqliteLedgerTest, ADamagedRowIsNoAnswer) {
  const auto ledger = SqliteLedger::Open(path_).value();
  const LedgerRow row = SampleLedgerRow("order-1");
  ASSERT_TRUE(Charge(row).ok());
  Run("UPDATE idempotency_completions SET reply = x'00'");
  EXPECT_EQ(ReasonOf(ledger->Find(row.record_id).status()), Reason::kRecordDamaged);
}

TEST_F(SqliteLedgerTest, SweepsOnlyUnneededRows) {
  const auto ledger = SqliteLedger::Open(path_).value();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Charge(SampleLedgerRow(absl::StrCat("old-", i), absl::Microseconds(1))).ok());
  }
  ASSERT_TRUE(Charge(SampleLedgerRow("new")).ok());
  EXPECT_EQ(ledger->Sweep(3).value(), 3);
  EXPECT_EQ(ledger->Sweep(3).value(), 2);
  EXPECT_EQ(ledger->Sweep(3).value(), 0);
  EXPECT_TRUE(ledger->Find(SampleLedgerRow("new").record_id).value().has_value());
}

}  // namespace
}  // namespace idempotency::internal
