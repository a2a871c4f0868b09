// The behaviour of SQLite alone: files, locks, failures. tests/conformance tests the behaviour of
// every store.
#include "server/store/sqlite/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "core/testing/manual_clock.h"
#include "core/testing/watched_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/limits.h"
#include "server/store/testing/operations.h"
#include "tests/support/blocking_call.h"
#include "tests/support/file_mount.h"
#include "tests/support/full_disk.h"
#include "tests/support/sqlite_write_lock.h"
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
using testing::FullDisk;
using ::testing::HasSubstr;
using testing::SqliteWriteLock;

class SqliteStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<SqliteStore> Open() {
    auto store = SqliteStore::Open(path_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // The reason why it cannot be opened.
  absl::Status OpenFails(const std::string& path) {
    const auto store = SqliteStore::Open(path);
    EXPECT_FALSE(store.ok());
    return store.status();
  }
  // With a connection of another program.
  void RunSql(const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }

  const testing::TempFolder folder_;
  const std::string path_ = folder_.File("records.db");
};

TEST_F(SqliteStoreTest, OpensAnEmptyFile) {
  std::ofstream(path_).flush();
  EXPECT_NE(Open(), nullptr);
}

TEST_F(SqliteStoreTest, NoOtherUserMayReadItsFiles) {
  const mode_t before = umask(0);
  const std::vector<std::string> files = {path_, path_ + "-wal", path_ + "-shm", path_ + ".lock"};
  const auto modes = [&files] {
    std::vector<unsigned> found;
    for (const std::string& file : files) {
      struct stat status {};
      EXPECT_EQ(stat(file.c_str(), &status), 0) << file;
      found.push_back(status.st_mode & 0777U);
    }
    return found;
  };
  {
    const auto store = Open();
    ASSERT_NE(store, nullptr);
    EXPECT_THAT(modes(), ::testing::Each(0600U));
    // As an earlier version wrote them.
    for (const std::string& file : files) chmod(file.c_str(), 0644);
  }
  const auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_THAT(modes(), ::testing::Each(0600U));
  umask(before);
}

TEST_F(SqliteStoreTest, AnEmptyPathIsRefused) {
  EXPECT_EQ(OpenFails("").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SqliteStoreTest, AFolderIsRefused) {
  const absl::Status status = OpenFails(folder_.path());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is a directory"));
}

TEST_F(SqliteStoreTest, AMissingFolderIsRefused) {
  const absl::Status status = OpenFails(folder_.File("missing/records.db"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not exist; create it"));
}

TEST_F(SqliteStoreTest, AFileThatIsNoDatabaseIsRefusedAndUnchanged) {
  const std::string text(4096, 'x');
  std::ofstream(path_) << text;
  const absl::Status status = OpenFails(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not a SQLite database"));
  std::ifstream file(path_);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
}

TEST_F(SqliteStoreTest, ADamagedFileIsRefused) {
  {
    const auto store = Open();
    std::vector<ReserveOp> ops;
    for (int i = 0; i < 200; ++i) ops.push_back(ReserveNamed(absl::StrCat("key-", i)));
    store->Reserve(ops);
  }
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3 * 4096);
  file << std::string(4 * 4096, '\x7f');
  file.close();
  const absl::Status status = OpenFails(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is damaged"));
}

TEST_F(SqliteStoreTest, ADatabaseOfAnotherProgramIsRefusedAndUnchanged) {
  RunSql("CREATE TABLE notes (text)");
  const absl::Status status = OpenFails(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another program"));
  RunSql("INSERT INTO notes VALUES ('still here')");
}

TEST_F(SqliteStoreTest, ANewerSchemaIsRefused) {
  Open();
  RunSql("PRAGMA user_version = 99");
  const absl::Status status = OpenFails(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("schema version 99"));
}

TEST_F(SqliteStoreTest, AMissingTableIsRefused) {
  Open();
  RunSql("DROP TABLE checkpoints");
  EXPECT_EQ(OpenFails(path_).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SqliteStoreTest, AReadOnlyFileIsRefused) {
  Open();
  namespace fs = std::filesystem;
  fs::permissions(path_, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  fs::permissions(path_ + ".lock", fs::perms::all);
  fs::permissions(folder_.path(), fs::perms::all);
  // Permissions do not bind root.
  const uid_t user = geteuid();
  constexpr uid_t kNobody = 65534;
  if (user == 0) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const absl::Status status = OpenFails(path_);
  ASSERT_EQ(seteuid(user), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("read-only"));
}

// As a restore leaves them that changes the owner of the database alone. SQLite reads such a log,
// and refuses writes.
TEST_F(SqliteStoreTest, FilesBesideItThatAreReadOnlyAreRefused) {
  namespace fs = std::filesystem;
  const ReserveOp op = ReserveNamed("one");
  const auto source = Open();
  ASSERT_TRUE(source->Reserve({&op, 1})[0].ok());
  fs::permissions(folder_.path(), fs::perms::all);
  const uid_t user = geteuid();
  constexpr uid_t kNobody = 65534;
  for (const std::string read_only : {"-wal", "-shm"}) {
    const std::string restored = absl::StrCat(folder_.path(), "/", read_only.substr(1, 1), ".db");
    for (const char* const suffix : {"", "-wal", "-shm"}) {
      const std::string copy = restored + suffix;
      fs::copy_file(path_ + suffix, copy);
      if (suffix == read_only) fs::permissions(copy, fs::perms::owner_read);
      // Permissions do not bind root.
      if (user == 0) {
        ASSERT_EQ(chown(copy.c_str(), kNobody, kNobody), 0);
      }
    }
    if (user == 0) {
      ASSERT_EQ(seteuid(kNobody), 0);
    }
    const absl::Status status = OpenFails(restored);
    ASSERT_EQ(seteuid(user), 0);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << read_only;
    EXPECT_THAT(std::string(status.message()), HasSubstr(read_only));
  }
}

TEST_F(SqliteStoreTest, AFileInUseIsRefusedUntilItIsClosed) {
  auto store = Open();
  const absl::Status status = OpenFails(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another process is using"));
  store.reset();
  EXPECT_NE(Open(), nullptr);
}

TEST_F(SqliteStoreTest, AFileInUseIsRefusedUnderAnotherNameToo) {
  const auto store = Open();
  std::filesystem::create_symlink(path_, folder_.File("link.db"));
  EXPECT_THAT(std::string(OpenFails(folder_.File("link.db")).message()),
              HasSubstr("another process is using"));
}

// The lock and the log would be beside the mount point: each container has its own.
TEST_F(SqliteStoreTest, AFileThatIsMountedAloneIsRefused) {
  Open();
  const std::string other = folder_.File("other");
  std::filesystem::create_directory(other);
  std::ofstream(other + "/records.db").flush();
  const int refused = testing::WithAFileMounted(path_, other + "/records.db", [](std::string at) {
    const absl::Status status = SqliteStore::Open(at).status();
    return status.code() == absl::StatusCode::kFailedPrecondition &&
           std::string(status.message()).find("Mount its directory") != std::string::npos &&
           !std::filesystem::exists(at + ".lock");
  });
  if (refused == 2) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(testing::WithAFileMounted(
                folder_.path(), other,
                [](std::string at) { return SqliteStore::Open(at + "/records.db").ok(); }),
            0)
      << "a directory that is mounted";
}

// As a process leaves them that was killed before it synced a commit. Otherwise a crash of the
// machine removes records whose replies were returned.
TEST_F(SqliteStoreTest, WhatIsRecoveredFromTheLogIsSyncedBeforeItIsAnswered) {
  const std::string recovered = folder_.File("recovered.db");
  const ReserveOp op = ReserveNamed("one");
  const auto killed = Open();
  ASSERT_TRUE(killed->Reserve({&op, 1})[0].ok());
  std::filesystem::copy_file(path_, recovered);
  std::filesystem::copy_file(path_ + "-wal", recovered + "-wal");
  const int before = syncs;
  const auto store = SqliteStore::Open(recovered);
  EXPECT_GT(syncs, before);
  ASSERT_TRUE(store.ok()) << store.status();
  const GetOp get{op.id, op.key};
  EXPECT_TRUE((*store)->Get({&get, 1})[0].ok());
}

class SqliteMovedFileTest : public SqliteStoreTest,
                            public ::testing::WithParamInterface<const char*> {};

// Otherwise completions are acknowledged that nobody finds any more.
TEST_P(SqliteMovedFileTest, IsNoticedAndNothingIsAcknowledged) {
  const auto store = Open();
  const ReserveOp op = ReserveNamed("before");
  const auto reserved = store->Reserve({&op, 1}).at(0);
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  ASSERT_TRUE(store->Inspect().ok());
  const std::string file = path_ + GetParam();
  const CompleteOp completion{op.key, op.id, std::get<Reserved>(*reserved).token,
                              EncodeReply(v1::Reply())};
  const GetOp get{op.id, op.key};
  const auto expect_refused = [&] {
    EXPECT_EQ(ReasonOf(store->Inspect().status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->Complete({&completion, 1})[0].status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->CompleteAndReserve({}, {&op, 1}).verdicts[0].status()),
              Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->Get({&get, 1})[0].status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->Sweep({}).status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->Resolve({}).status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->List({}).status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->ReadAudit({}).status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->MeasureUsage({}).status()), Reason::kStoreUnavailable);
  };
  std::filesystem::rename(file, file + ".away");
  expect_refused();
  std::ofstream(file).flush();
  expect_refused();
  std::filesystem::rename(file + ".away", file);
  EXPECT_TRUE(store->Inspect().ok()) << "it is back";
  EXPECT_TRUE(store->Complete({&completion, 1})[0].ok());
}

INSTANTIATE_TEST_SUITE_P(Files, SqliteMovedFileTest, ::testing::Values("", "-wal", "-shm"));

TEST_F(SqliteStoreTest, AFailedOpenLeavesNoLock) {
  std::ofstream(path_) << std::string(4096, 'x');
  EXPECT_FALSE(OpenFails(path_).ok());
  std::filesystem::remove(path_);
  EXPECT_NE(Open(), nullptr);
}

TEST_F(SqliteStoreTest, AFileLockedByAnotherProgramIsUnavailable) {
  SqliteOptions options;
  options.busy_timeout = absl::Milliseconds(1);
  const auto store = SqliteStore::Open(path_, options);
  ASSERT_TRUE(store.ok()) << store.status();
  auto other = std::make_unique<SqliteWriteLock>(path_);
  const std::vector<ReserveOp> ops = {ReserveNamed("one"), ReserveNamed("two")};
  for (const auto& answer : (*store)->Reserve(ops)) {
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  }
  const GetOp get{ops[0].id, ops[0].key};
  EXPECT_EQ(ReasonOf((*store)->Get({&get, 1})[0].status()), Reason::kRecordNotFound)
      << "reading goes on";
  EXPECT_EQ(ReasonOf((*store)->Inspect().status()), Reason::kStoreUnavailable)
      << "but nothing could be kept";
  other.reset();
  for (const auto& answer : (*store)->Reserve(ops)) EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST_F(SqliteStoreTest, ABatchWaitsForAnotherProgramAsLongAsItMay) {
  SqliteOptions options;
  options.busy_timeout = absl::Seconds(20);
  const auto store = SqliteStore::Open(path_, options).value();
  auto other = std::make_unique<SqliteWriteLock>(path_);
  const ReserveOp op = ReserveNamed("one");
  BlockingCall<absl::Status> reserves([&] { return store->Reserve({&op, 1}).at(0).status(); });
  EXPECT_TRUE(reserves.AwaitBlocked());
  other.reset();
  EXPECT_TRUE(reserves.Get().ok());
}

// Rows that another program has damaged: each of them alone returns DATA_LOSS, and is never run
// again.
class SqliteDamageTest : public SqliteStoreTest,
                         public ::testing::WithParamInterface<const char*> {};

TEST_P(SqliteDamageTest, IsDataLossForItsRecordAlone) {
  const auto store = Open();
  const std::vector<ReserveOp> ops = {ReserveNamed("damaged"), ReserveNamed("sound")};
  std::vector<CompleteOp> completions;
  for (const auto& answer : store->Reserve(ops)) {
    const ReserveOp& op = ops[completions.size()];
    completions.push_back(
        {op.key, op.id, std::get<Reserved>(*answer).token, EncodeReply(v1::Reply())});
  }
  store->Complete(completions);
  RunSql(absl::StrCat("PRAGMA ignore_check_constraints = ON; UPDATE records SET ", GetParam(),
                      " WHERE key = 'damaged'"));
  const auto verdicts = store->Reserve(ops);
  EXPECT_EQ(ReasonOf(verdicts[0].status()), Reason::kRecordDamaged);
  ASSERT_TRUE(verdicts[1].ok()) << verdicts[1].status();
  EXPECT_TRUE(std::holds_alternative<Replay>(*verdicts[1]));
  const auto completed = store->Complete(completions);
  EXPECT_EQ(ReasonOf(completed[0].status()), Reason::kRecordDamaged);
  EXPECT_TRUE(completed[1].ok());
  const GetOp get{ops[0].id, ops[0].key};
  EXPECT_EQ(ReasonOf(store->Get({&get, 1})[0].status()), Reason::kRecordDamaged);
  ListOp list;
  list.name_space = ops[0].key.name_space;
  const auto page = store->List(list);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->records.size(), 1u);
  EXPECT_EQ(page->damaged, 1);
}

INSTANTIATE_TEST_SUITE_P(Columns, SqliteDamageTest,
                         ::testing::Values("state = 9", "attempt = 0", "token = x'00'",
                                           "request_token = x'00'", "on_lease_expiry = 7",
                                           "fingerprints = x'ff'", "annotations = x'ff'",
                                           "reply_digest = x'00'", "reply_digest = NULL",
                                           "completed_at = NULL", "state = 1"));

// As above, but the record is forgotten: its damage must not remove it early.
TEST_F(SqliteStoreTest, ATombstoneThatEndsBeforeItsRecordIsNotSwept) {
  ManualClock clock;
  SqliteOptions options;
  options.clock = &clock;
  const auto store = SqliteStore::Open(path_, options).value();
  const ReserveOp op = ReserveNamed("damaged");
  ASSERT_TRUE(store->Reserve({&op, 1})[0].ok());
  RunSql("PRAGMA ignore_check_constraints = ON; UPDATE records SET tombstone_until = 1");
  clock.Advance(op.retention + limits::kClockStepMargin);
  const auto swept = store->Sweep({});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->visited, 1);
  EXPECT_EQ(swept->removed, 0);
  EXPECT_EQ(ReasonOf(store->Reserve({&op, 1})[0].status()), Reason::kRecordDamaged);
}

// Other writers wait for a step.
TEST_F(SqliteStoreTest, AStepOfTheSweepFreesABoundedSize) {
  ManualClock clock;
  SqliteOptions options;
  options.clock = &clock;
  const auto store = SqliteStore::Open(path_, options).value();
  v1::Reply reply;
  reply.set_body(std::string(7 * 1024 * 1024, 'r'));
  for (const char* const key : {"1", "2", "3", "4"}) {
    const ReserveOp op = ReserveNamed(key);
    const CompleteOp complete{op.key, op.id, std::get<Reserved>(*store->Reserve({&op, 1})[0]).token,
                              EncodeReply(reply)};
    ASSERT_TRUE(store->Complete({&complete, 1})[0].ok());
  }
  clock.Advance(ReserveNamed("1").retention + limits::kClockStepMargin);
  SweepOp op;
  const auto first = store->Sweep(op);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->removed, 3) << "16 MiB, and what begins before that";
  EXPECT_EQ(first->visited, 3);
  ASSERT_TRUE(first->next.has_value());
  op.after = first->next;
  const auto second = store->Sweep(op);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->removed, 1);
  EXPECT_EQ(second->next, std::nullopt);
}

TEST_F(SqliteStoreTest, TheDefaultsAreThoseThatAreDocumented) {
  const SqliteOptions options;
  EXPECT_EQ(options.busy_timeout, absl::Seconds(5));
  EXPECT_TRUE(options.check_file);
  EXPECT_EQ(options.clock, &Clock::System());
}

TEST_F(SqliteStoreTest, ADamagedReplyIsLeftToItsDigest) {
  const auto store = Open();
  const ReserveOp op = ReserveNamed("damaged");
  v1::Reply reply;
  reply.set_body("paid");
  const CompleteOp complete{op.key, op.id, std::get<Reserved>(*store->Reserve({&op, 1})[0]).token,
                            EncodeReply(reply)};
  ASSERT_TRUE(store->Complete({&complete, 1})[0].ok());
  RunSql("UPDATE records SET reply = x'2a04706f6f72'");
  const auto verdict = store->Reserve({&op, 1})[0];
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(ReasonOf(DecodeReply(std::get<Replay>(*verdict).reply).status()),
            Reason::kRecordDamaged);
}

// A large reply is stored in a chain of pages.
class SqliteDamagedPageTest : public SqliteStoreTest {
 protected:
  // "damaged" and "sound"; a page of the first one's reply refers to a page that does not exist.
  void SetUp() override {
    options_.clock = &clock_;
    options_.check_file = false;
    const auto store = SqliteStore::Open(path_, options_).value();
    for (ReserveOp& op : ops_) {
      op.reply_retention = absl::Hours(1);
      v1::Reply reply;
      reply.set_body(std::string(64 * 1024, op.key.key[0]));
      const CompleteOp complete{op.key, op.id,
                                std::get<Reserved>(*store->Reserve({&op, 1})[0]).token,
                                EncodeReply(reply)};
      ASSERT_TRUE(store->Complete({&complete, 1})[0].ok());
    }
  }
  std::unique_ptr<SqliteStore> OpenDamaged() {
    RunSql("PRAGMA wal_checkpoint(TRUNCATE)");
    constexpr std::size_t kPage = 4096;
    constexpr std::size_t kNext = 4;
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    std::string page(kPage, '\0');
    while (file.read(page.data(), kPage)) {
      if (page.find_first_not_of('d', kNext) != std::string::npos) continue;
      file.seekp(file.tellg() - std::streamoff(kPage));
      file.write("\xFF\xFF\xFF\xFF", kNext);
      file.flush();
      return SqliteStore::Open(path_, options_).value();
    }
    ADD_FAILURE() << "there is no such page";
    return nullptr;
  }

  ManualClock clock_;
  SqliteOptions options_;
  std::vector<ReserveOp> ops_ = {ReserveNamed("damaged"), ReserveNamed("sound")};
};

TEST_F(SqliteDamagedPageTest, FailsItsRecordAlone) {
  const auto store = OpenDamaged();
  ASSERT_NE(store, nullptr);
  std::vector<ReserveOp> batch = {ReserveNamed("new"), ops_[0], ops_[1], ReserveNamed("new-2")};
  const auto verdicts = store->Reserve(batch);
  EXPECT_EQ(ReasonOf(verdicts[1].status()), Reason::kRecordDamaged) << verdicts[1].status();
  ASSERT_TRUE(verdicts[2].ok()) << verdicts[2].status();
  EXPECT_TRUE(std::holds_alternative<Replay>(*verdicts[2]));
  std::vector<CompleteOp> completions;
  for (const std::size_t i : {0, 3}) {
    ASSERT_TRUE(verdicts[i].ok()) << verdicts[i].status();
    completions.push_back({batch[i].key, batch[i].id, std::get<Reserved>(*verdicts[i]).token,
                           EncodeReply(v1::Reply())});
  }
  // In the next transaction too, and beside reservations.
  const SharedAnswers answers = store->CompleteAndReserve(completions, ops_);
  for (const auto& completion : answers.completions) EXPECT_TRUE(completion.ok());
  EXPECT_EQ(ReasonOf(answers.verdicts[0].status()), Reason::kRecordDamaged);
  EXPECT_TRUE(answers.verdicts[1].ok()) << answers.verdicts[1].status();
  const std::vector<GetOp> gets = {{ops_[0].id, ops_[0].key}, {ops_[1].id, ops_[1].key}};
  const auto records = store->Get(gets);
  EXPECT_EQ(ReasonOf(records[0].status()), Reason::kRecordDamaged);
  EXPECT_TRUE(records[1].ok()) << records[1].status();
}

// Commits succeed: health says nothing else.
TEST_F(SqliteStoreTest, GaugesThatCannotBeReadAreThoseOfBefore) {
  const auto store = Open();
  const ReserveOp op = ReserveNamed("open");
  ASSERT_TRUE(store->Reserve({&op, 1})[0].ok());
  const auto before = store->Inspect();
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_TRUE(before->read);
  RunSql("DROP INDEX records_reserved");
  const auto inspected = store->Inspect();
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_GT(inspected->oldest_reserved_age, absl::ZeroDuration());
  EXPECT_EQ(inspected->oldest_reserved_age, before->oldest_reserved_age);
  EXPECT_FALSE(inspected->read);
  // The other one can be read.
  const ReserveOp lost = ReserveNamed("lost");
  const auto granted = store->Reserve({&lost, 1})[0];
  ASSERT_TRUE(granted.ok()) << granted.status();
  ReleaseOp release{lost.key, lost.id, std::get<Reserved>(*granted).token, "why"};
  release.outcome_unknown = true;
  ASSERT_TRUE(store->Release({&release, 1})[0].ok());
  EXPECT_EQ(store->Inspect()->unknown_records, 1);
}

TEST_F(SqliteStoreTest, GaugesThatWereNeverReadAreNone) {
  constexpr std::streamoff kPage = 4096;
  ASSERT_NE(Open(), nullptr);
  std::streamoff root = 0;
  {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    const auto store_page = [](void* page, int, char** values, char**) {
      return absl::SimpleAtoi(values[0], static_cast<std::streamoff*>(page)) ? 0 : 1;
    };
    EXPECT_EQ(
        sqlite3_exec(database, "SELECT rootpage FROM sqlite_schema WHERE name = 'records_reserved'",
                     store_page, &root, nullptr),
        SQLITE_OK);
    sqlite3_close(database);
  }
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((root - 1) * kPage);
    file.write("\xFF", 1);
  }
  SqliteOptions options;
  options.check_file = false;
  const auto store = SqliteStore::Open(path_, options);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto inspected = (*store)->Inspect();
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(inspected->oldest_reserved_age, std::nullopt);
  EXPECT_EQ(inspected->unknown_records, 0);
  EXPECT_FALSE(inspected->read);
}

TEST_F(SqliteDamagedPageTest, DoesNotStopTheSweep) {
  const auto store = OpenDamaged();
  ASSERT_NE(store, nullptr);
  clock_.Advance(absl::Hours(1));
  const auto swept = store->Sweep({});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->visited, 2);
  EXPECT_EQ(swept->replies_dropped, 1);
  const ReserveOp op = ReserveNamed("new");
  EXPECT_TRUE(store->Reserve({&op, 1})[0].ok());
}

// Such a row is neither removed nor emptied: SQLite would free the pages of its reply.
TEST_F(SqliteDamagedPageTest, DoesNotStopTheSweepThatRemovesItsRecord) {
  RunSql("UPDATE records SET reply_until = NULL");
  const auto store = OpenDamaged();
  ASSERT_NE(store, nullptr);
  clock_.Advance(ops_[0].retention + limits::kClockStepMargin);
  for (const int removed : {1, 0}) {
    const auto swept = store->Sweep({});
    ASSERT_TRUE(swept.ok()) << swept.status();
    EXPECT_EQ(swept->removed, removed) << "the sound one, once";
    EXPECT_FALSE(swept->next.has_value());
  }
  const ReserveOp op = ReserveNamed("new");
  EXPECT_TRUE(store->Reserve({&op, 1})[0].ok());
}

TEST_F(SqliteDamagedPageTest, DoesNotStopTheSweepThatLeavesItsTombstone) {
  RunSql("UPDATE records SET reply_until = NULL, tombstone_until = expires_at + 3600000000");
  const auto store = OpenDamaged();
  ASSERT_NE(store, nullptr);
  clock_.Advance(ops_[0].retention + limits::kClockStepMargin);
  const auto swept = store->Sweep({});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->entombed, 1);
}

TEST_F(SqliteDamagedPageTest, IsBusyForAPurge) {
  const auto store = OpenDamaged();
  ASSERT_NE(store, nullptr);
  PurgeOp op;
  op.name_space = ops_[0].key.name_space;
  op.force = true;
  for (const absl::Duration tombstone : {absl::Hours(1), absl::ZeroDuration()}) {
    op.tombstone = tombstone;
    const auto step = store->Purge(op);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(step->busy, 1);
    EXPECT_EQ(step->purged, std::vector<RecordId>({ops_[1].id}));
  }
  op.key = ops_[0].key;
  EXPECT_EQ(ReasonOf(store->Purge(op).status()), Reason::kRecordDamaged);
}

// Every reply becomes another one.
class ReplacingSealer final : public ContentSealer {
 public:
  ResealedContent Reseal(const StoredContent& stored) override {
    v1::Reply reply;
    reply.set_body("sealed anew");
    ResealedContent after;
    if (stored.reply) after.reply = EncodeReply(reply);
    return after;
  }
};

TEST_F(SqliteDamagedPageTest, DoesNotStopSealingAnew) {
  const auto store = OpenDamaged();
  ASSERT_NE(store, nullptr);
  ReplacingSealer sealer;
  ResealOp op;
  op.name_space = ops_[0].key.name_space;
  op.sealer = &sealer;
  const auto step = store->Reseal(op);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->examined, 2);
  EXPECT_EQ(step->damaged, std::vector<RecordId>({ops_[0].id}));
  EXPECT_EQ(step->resealed, std::vector<RecordId>({ops_[1].id}));
  EXPECT_FALSE(step->next.has_value());
}

// Some records of a namespace are on one page of the table, which is zeros.
class SqliteDamagedLeafTest : public SqliteStoreTest {
 protected:
  static constexpr int kRecords = 300;

  std::unique_ptr<SqliteStore> OpenDamaged() {
    options_.clock = &clock_;
    options_.check_file = false;
    {
      const auto store = SqliteStore::Open(path_, options_).value();
      std::vector<ReserveOp> ops;
      std::vector<CompleteOp> completions;
      for (int i = 0; i < kRecords; ++i) ops.push_back(ReserveNamed(absl::StrCat("key-", i)));
      for (const auto& verdict : store->Reserve(ops)) {
        const ReserveOp& op = ops[completions.size()];
        completions.push_back(
            {op.key, op.id, std::get<Reserved>(*verdict).token, EncodeReply(v1::Reply())});
      }
      for (const auto& completed : store->Complete(completions)) EXPECT_TRUE(completed.ok());
    }
    RunSql("PRAGMA wal_checkpoint(TRUNCATE)");
    ZeroLeafWith("key-150");
    return SqliteStore::Open(path_, options_).value();
  }
  // As many as a list cannot read.
  static std::int64_t Damaged(SqliteStore& store) {
    ListOp op;
    op.name_space = "payments";
    int listed = 0;
    std::int64_t damaged = 0;
    do {
      const auto page = store.List(op);
      if (!page.ok()) {
        ADD_FAILURE() << page.status();
        return 0;
      }
      listed += static_cast<int>(page->records.size());
      damaged += page->damaged;
      op.after = page->next;
    } while (op.after);
    EXPECT_EQ(listed + damaged, kRecords);
    EXPECT_GT(damaged, 0);
    return damaged;
  }

  ManualClock clock_;
  SqliteOptions options_;

 private:
  void ZeroLeafWith(const std::string& key) {
    constexpr std::size_t kPage = 4096;
    constexpr char kLeafOfTable = 13;
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    std::string page(kPage, '\0');
    while (file.read(page.data(), kPage)) {
      if (page[0] != kLeafOfTable || !absl::StrContains(page, key)) continue;
      file.seekp(file.tellg() - std::streamoff(kPage));
      file.write(std::string(kPage, '\0').data(), kPage);
      file.flush();
      return;
    }
    ADD_FAILURE() << "there is no such page";
  }
};

TEST_F(SqliteDamagedLeafTest, DoesNotStopAList) { Damaged(*OpenDamaged()); }

TEST_F(SqliteDamagedLeafTest, DoesNotStopMeasurements) {
  const auto store = OpenDamaged();
  UsageOp op;
  op.name_space = "payments";
  op.limit = 40;
  std::int64_t live = 0;
  do {
    const auto step = store->MeasureUsage(op);
    ASSERT_TRUE(step.ok()) << step.status();
    live += step->usage.records;
    op.after = step->next;
  } while (op.after);
  EXPECT_EQ(live, kRecords);
}

TEST_F(SqliteDamagedLeafTest, DoesNotStopSealingAnew) {
  const auto store = OpenDamaged();
  const std::int64_t damaged = Damaged(*store);
  ReplacingSealer sealer;
  ResealOp op;
  op.name_space = "payments";
  op.sealer = &sealer;
  std::size_t met = 0;
  std::size_t resealed = 0;
  do {
    const auto step = store->Reseal(op);
    ASSERT_TRUE(step.ok()) << step.status();
    met += step->damaged.size();
    resealed += step->resealed.size();
    op.after = step->next;
  } while (op.after);
  EXPECT_EQ(met, static_cast<std::size_t>(damaged));
  EXPECT_EQ(met + resealed, static_cast<std::size_t>(kRecords));
}

// A record whose removal needs the damaged page, since its own page empties, is left as well.
TEST_F(SqliteDamagedLeafTest, DoesNotStopAPurge) {
  const auto store = OpenDamaged();
  const std::int64_t damaged = Damaged(*store);
  PurgeOp op;
  op.name_space = "payments";
  op.force = true;
  std::int64_t busy = 0;
  std::int64_t purged = 0;
  do {
    const auto step = store->Purge(op);
    ASSERT_TRUE(step.ok()) << step.status();
    busy += step->busy;
    purged += static_cast<std::int64_t>(step->purged.size());
    op.after = step->next;
  } while (op.after);
  EXPECT_EQ(busy + purged, kRecords);
  EXPECT_GE(busy, damaged);
  EXPECT_GT(purged, kRecords / 2);
}

// The sweep leaves a damaged row unchanged, and continues with the others.
TEST_P(SqliteDamageTest, IsKeptByTheSweep) {
  ManualClock clock;
  SqliteOptions options;
  options.clock = &clock;
  const auto store = SqliteStore::Open(path_, options).value();
  std::vector<ReserveOp> ops = {ReserveNamed("damaged"), ReserveNamed("sound")};
  for (ReserveOp& op : ops) op.tombstone = absl::Hours(1);
  std::vector<CompleteOp> completions;
  for (const auto& answer : store->Reserve(ops)) {
    const ReserveOp& op = ops[completions.size()];
    completions.push_back(
        {op.key, op.id, std::get<Reserved>(*answer).token, EncodeReply(v1::Reply())});
  }
  store->Complete(completions);
  RunSql(absl::StrCat("PRAGMA ignore_check_constraints = ON; UPDATE records SET ", GetParam(),
                      " WHERE key = 'damaged'"));
  clock.Advance(ops[0].retention + limits::kClockStepMargin);
  const auto swept = store->Sweep({});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->visited, 2);
  EXPECT_EQ(swept->removed, 0);
  EXPECT_GE(swept->entombed, 1) << "the sound one";
  const GetOp get{ops[0].id, ops[0].key};
  EXPECT_FALSE(store->Get({&get, 1})[0].ok());
}

TEST_F(SqliteStoreTest, OnAFullDiskAWholeBatchIsUnavailableAndNothingOfItStays) {
  const auto store = Open();
  const ReserveOp before = ReserveNamed("before");
  const auto reserved = store->Reserve({&before, 1});
  ASSERT_TRUE(reserved[0].ok());
  std::vector<ReserveOp> ops;
  for (int i = 0; i < 256; ++i) ops.push_back(ReserveNamed(absl::StrCat("key-", i)));
  {
    const FullDisk full(std::filesystem::file_size(path_ + "-wal") + 8192);
    for (const auto& answer : store->Reserve(ops)) {
      EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable) << answer.status();
    }
    const GetOp get{before.id, before.key};
    EXPECT_TRUE(store->Get({&get, 1})[0].ok()) << "reading goes on";
  }
  for (const ReserveOp& op : ops) {
    const GetOp get{op.id, op.key};
    EXPECT_EQ(ReasonOf(store->Get({&get, 1})[0].status()), Reason::kRecordNotFound);
  }
  for (const auto& answer : store->Reserve(ops)) {
    ASSERT_TRUE(answer.ok()) << "with space again it goes on: " << answer.status();
    EXPECT_EQ(std::get<Reserved>(*answer).attempt, 1u);
  }
}

// A path that is mistyped.
TEST_F(SqliteStoreTest, AFileOfAnotherProgramKeepsItsPermissions) {
  RunSql("CREATE TABLE notes (text)");
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  EXPECT_THAT(std::string(OpenFails(path_).message()), HasSubstr("another program"));
  const std::string text = folder_.File("passwd");
  std::ofstream(text) << "root:x:0:0" << std::string(4096, '\n');
  ASSERT_EQ(chmod(text.c_str(), 0644), 0);
  EXPECT_THAT(std::string(OpenFails(text).message()), HasSubstr("is not a SQLite database"));
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
  ASSERT_EQ(stat(text.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0644U);
}

TEST_F(SqliteStoreTest, ALinkToNoFileLeadsToOneThatIsPrivateAndWatched) {
  const mode_t before = umask(0022);
  const std::string link = folder_.File("link.db");
  std::filesystem::create_symlink(path_, link);
  const auto store = SqliteStore::Open(link).value();
  umask(before);
  for (const char* const suffix : {"", "-wal", "-shm", ".lock"}) {
    struct stat status {};
    ASSERT_EQ(stat((path_ + suffix).c_str(), &status), 0) << suffix;
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << suffix;
  }
  EXPECT_TRUE(store->Inspect()->sqlite_wal_bytes.has_value());
  std::filesystem::rename(path_ + "-wal", path_ + "-moved");
  EXPECT_FALSE(store->Inspect().ok());
}

// Called by SQLite once it has opened a file.
std::function<void()> on_opened;
int CallOnOpened(sqlite3* /*database*/, char** /*error*/, const void* /*api*/) {
  on_opened();
  return SQLITE_OK;
}

TEST_F(SqliteStoreTest, AFileThatIsReplacedWhileItIsOpenedIsRefused) {
  const std::string other = folder_.File("other.db");
  ASSERT_TRUE(SqliteStore::Open(other).ok());
  Open();
  int opened = 0;
  // Between the writer and the reader.
  on_opened = [&] {
    if (++opened == 2) std::filesystem::rename(other, path_);
  };
  sqlite3_auto_extension(reinterpret_cast<void (*)()>(CallOnOpened));
  const absl::Status failed = OpenFails(path_);
  sqlite3_reset_auto_extension();
  EXPECT_THAT(std::string(failed.message()), HasSubstr("was replaced while it was opened"));
}

// The records of steps and lists of administrators, and of the sweep, with large replies.
class LargeRepliesTest : public SqliteStoreTest {
 protected:
  static constexpr int kRecords = 40;
  static constexpr std::int64_t kReplyBytes = 1024 * 1024;

  // Completed ones. Opened anew: no page is in a cache.
  std::unique_ptr<SqliteStore> OpenFilled(absl::Duration tombstone) {
    {
      const auto store = Open();
      v1::Reply reply;
      reply.set_body(std::string(kReplyBytes, 'r'));
      for (int i = 0; i < kRecords; ++i) {
        ReserveOp op = ReserveNamed(absl::StrCat("key-", i));
        op.tombstone = tombstone;
        const auto verdicts = store->Reserve({&op, 1});
        CompleteOp complete{op.key, op.id, std::get<Reserved>(*verdicts[0]).token,
                            EncodeReply(reply)};
        EXPECT_TRUE(store->Complete({&complete, 1})[0].ok());
      }
    }
    return Open();
  }
  // What this process read from files, whatever the system's cache had.
  static std::int64_t BytesRead() {
    std::ifstream io("/proc/self/io");
    std::string name;
    std::int64_t bytes = 0;
    io >> name >> bytes;
    EXPECT_EQ(name, "rchar:");
    return bytes;
  }
};

TEST_F(LargeRepliesTest, AListReadsNoReply) {
  const auto store = OpenFilled(absl::ZeroDuration());
  const std::int64_t before = BytesRead();
  ListOp op;
  op.name_space = "payments";
  int listed = 0;
  do {
    const auto page = store->List(op);
    ASSERT_TRUE(page.ok()) << page.status();
    listed += static_cast<int>(page->records.size());
    op.after = page->next;
  } while (op.after);
  EXPECT_EQ(listed, kRecords);
  EXPECT_LT(BytesRead() - before, 5 * kReplyBytes);
}

TEST_F(LargeRepliesTest, AStepOfAPurgeRemovesABoundedNumberOfBytes) {
  const auto store = OpenFilled(absl::ZeroDuration());
  PurgeOp op;
  op.name_space = "payments";
  op.created_before = absl::Now() + absl::Hours(1);
  op.note.reason = "r";
  int purged = 0;
  do {
    const auto step = store->Purge(op);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_LE(step->purged.size(), 17u);
    purged += static_cast<int>(step->purged.size());
    op.after = step->next;
  } while (op.after);
  EXPECT_EQ(purged, kRecords);
}

// With a tombstone, SQLite follows the reply's pages to the columns behind it.
TEST_F(LargeRepliesTest, AStepOfTheSweepReadsABoundedNumberOfBytes) {
  const auto store = OpenFilled(absl::Hours(1));
  SweepOp op;
  std::int64_t visited = 0;
  do {
    const std::int64_t before = BytesRead();
    const auto step = store->Sweep(op);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_LT(BytesRead() - before, 20 * kReplyBytes);
    visited += step->visited;
    op.after = step->next;
  } while (op.after);
  EXPECT_EQ(visited, kRecords);
}

// Of a shell or a slow backup: no checkpoint may reset the log that it reads.
TEST_F(SqliteStoreTest, ALogThatAReaderKeepsIsReported) {
  constexpr char kOpenTransaction[] = "another program reads the file in a transaction";
  ManualClock clock;
  SqliteOptions options;
  options.clock = &clock;
  // More than a checkpoint leaves.
  options.large_wal_bytes = 20 * 1024 * 1024;
  const auto store = SqliteStore::Open(path_, options).value();
  int written = 0;
  // Returns the size of the log.
  const auto write = [&]() -> std::int64_t {
    std::vector<ReserveOp> ops;
    for (int i = 0; i < 1000; ++i) ops.push_back(ReserveNamed(absl::StrCat("key-", ++written)));
    for (const auto& answer : store->Reserve(ops)) EXPECT_TRUE(answer.ok()) << answer.status();
    return store->Inspect()->sqlite_wal_bytes.value();
  };
  const auto warns = [&] {
    ::testing::internal::CaptureStdout();
    EXPECT_TRUE(store->Inspect().ok());
    return absl::StrContains(::testing::internal::GetCapturedStdout(), kOpenTransaction);
  };
  for (int i = 0; i < 60; ++i) ASSERT_LE(write(), options.large_wal_bytes) << i;
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM records", nullptr, nullptr, nullptr),
            SQLITE_OK);
  ::testing::internal::CaptureStdout();
  for (int i = 0; i < 200 && write() <= options.large_wal_bytes; ++i) {
  }
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr(kOpenTransaction));
  EXPECT_FALSE(warns()) << "a minute at most";
  clock.Advance(absl::Minutes(1));
  EXPECT_TRUE(warns());
  sqlite3_close(reader);
}

// Reads succeed there, but no completion would be durable.
TEST_F(SqliteStoreTest, AFullDiskShowsInAnInspection) {
  ManualClock clock;
  SqliteOptions options;
  options.clock = &clock;
  const auto store = SqliteStore::Open(path_, options).value();
  // Otherwise commits go into the space that the log already has.
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(other, "PRAGMA wal_checkpoint(TRUNCATE)", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(other);
  ASSERT_TRUE(store->Inspect().ok());
  const auto log_bytes = std::filesystem::file_size(path_ + "-wal");
  ASSERT_GT(log_bytes, 0u);
  {
    const FullDisk full(log_bytes);
    // A successful commit is proof for five seconds.
    clock.Advance(absl::Seconds(5) - absl::Microseconds(1));
    EXPECT_TRUE(store->Inspect().ok());
    clock.Advance(absl::Microseconds(1));
    EXPECT_EQ(ReasonOf(store->Inspect().status()), Reason::kStoreUnavailable);
  }
  EXPECT_TRUE(store->Inspect().ok());
}

// A restart: the log has pages for which the file has no room.
TEST_F(SqliteStoreTest, OnAFullDiskItOpensAndIsRead) {
  constexpr std::uintmax_t kLogIndexBytes = 32 * 1024;
  const auto store = Open();
  std::vector<ReserveOp> ops;
  for (int i = 0; i < 1000; ++i) ops.push_back(ReserveNamed(absl::StrCat("key-", i)));
  for (const auto& answer : store->Reserve(ops)) ASSERT_TRUE(answer.ok()) << answer.status();
  const std::string copy = folder_.File("copy.db");
  for (const char* const suffix : {"", "-wal"}) {
    std::filesystem::copy_file(path_ + suffix, copy + suffix);
  }
  const auto room = std::max(std::filesystem::file_size(copy), kLogIndexBytes);
  ASSERT_GT(std::filesystem::file_size(copy + "-wal"), 2 * room);
  const FullDisk full(room);
  const auto opened = SqliteStore::Open(copy);
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const ReserveOp& op : ops) {
    const GetOp get{op.id, op.key};
    EXPECT_TRUE((*opened)->Get({&get, 1})[0].ok());
  }
}

TEST_F(SqliteStoreTest, WhatIsAnsweredIsOnTheDisk) {
  const auto store = Open();
  for (const char* const key : {"one", "two", "three"}) {
    const ReserveOp op = ReserveNamed(key);
    int before = syncs;
    const auto verdict = store->Reserve({&op, 1}).at(0);
    EXPECT_GT(syncs, before) << "a reservation";
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    const CompleteOp completion{op.key, op.id, std::get<Reserved>(*verdict).token,
                                EncodeReply(v1::Reply())};
    before = syncs;
    EXPECT_TRUE(store->Complete({&completion, 1}).at(0).ok());
    EXPECT_GT(syncs, before) << "a completion";
  }
}

// A lease may have run out while a batch waited for the lock.
TEST_F(SqliteStoreTest, TheTimeIsThatUnderTheWriteLock) {
  int reads = 0;
  int unlocked = 0;
  const WatchedClock clock(Clock::System(), [&] {
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    const int begun = sqlite3_exec(database, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
    sqlite3_close(database);
    reads += 1;
    if (begun != SQLITE_BUSY) unlocked += 1;
  });
  SqliteOptions options;
  options.clock = &clock;
  const auto store = SqliteStore::Open(path_, options);
  ASSERT_TRUE(store.ok()) << store.status();
  const ReserveOp op = ReserveNamed("one");
  const auto verdict = (*store)->Reserve({&op, 1}).at(0);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  const Uuid token = std::get<Reserved>(*verdict).token;
  const ExtendOp extension{op.key, op.id, token, limits::kDefaultLease, std::nullopt};
  EXPECT_TRUE((*store)->Extend({&extension, 1}).at(0).ok());
  const CompleteOp completion{op.key, op.id, token, EncodeReply(v1::Reply())};
  const ReserveOp other = ReserveNamed("two");
  EXPECT_TRUE((*store)->CompleteAndReserve({&completion, 1}, {&other, 1}).completions[0].ok());
  EXPECT_TRUE((*store)->Sweep({}).ok());
  EXPECT_EQ(reads, 4);
  EXPECT_EQ(unlocked, 0);
}

TEST_F(SqliteStoreTest, ErrorsHoldNothingOfTheOperation) {
  const auto store = Open();
  ReserveOp op = ReserveNamed("secret-key");
  store->Reserve({&op, 1});
  op.key.key = "other-secret";
  const absl::Status status = store->Reserve({&op, 1})[0].status();
  EXPECT_EQ(status.ToString().find("secret"), std::string::npos) << status;
}

}  // namespace
}  // namespace idempotency::internal
