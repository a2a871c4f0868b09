#include "grpc_idempotency/client/sqlite_key_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

#include "core/mutex.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/uuid.h"
#include "tests/support/blocking_call.h"
#include "tests/support/file_mount.h"
#include "tests/support/full_disk.h"
#include "tests/support/process.h"
#include "tests/support/sqlite_write_lock.h"
#include "tests/support/subreaper.h"
#include "tests/support/temp_folder.h"

namespace {
// The paths of the synced files and directories.
idempotency::internal::Mutex synced_mutex;
std::multiset<std::string> synced;

int Synced(const std::string& path) {
  const idempotency::internal::MutexLock lock(synced_mutex);
  return static_cast<int>(synced.count(path));
}
}  // namespace

// Replaces the C library's function, with which SQLite writes its files to the disk.
extern "C" int fdatasync(int descriptor) {
  std::error_code ignored;
  const std::string path =
      std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", descriptor), ignored);
  {
    const idempotency::internal::MutexLock lock(synced_mutex);
    synced.insert(path);
  }
  return static_cast<int>(syscall(SYS_fdatasync, descriptor));
}

namespace idempotency::internal {
namespace {

using testing::BlockingCall;
using ::testing::ElementsAre;
using ::testing::Field;
using testing::FullDisk;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Process;
using ::testing::SizeIs;
using testing::SqliteWriteLock;

std::string WorkName(int i) { return absl::StrCat("order-", i, "/charge"); }

// The child process of a test: prints the keys of that many pieces of work, then waits to be
// killed.
int PrintKeys(const std::string& path, int works) {
  const auto store = SqliteKeyStore::Open(path);
  for (int i = 0; store.ok() && i < works; ++i) {
    std::printf("key %s\n", (*store)->KeyFor(WorkName(i)).value_or("none").c_str());
  }
  std::printf("done\n");
  std::fflush(stdout);
  pause();
  return 0;
}

// The child process of a test: recovers the log for as long as it lives, and never ends that.
int RecoverLog(const std::string& path) {
  // SQLite's: the two copies of the header of the log's index, and the locks for writing and for
  // recovering.
  constexpr std::size_t kHeaderBytes = 96;
  constexpr off_t kLocks[] = {120, 122};
  const int index = open((path + "-shm").c_str(), O_RDWR | O_CLOEXEC);
  if (index < 0) return 1;
  for (const off_t place : kLocks) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = place;
    lock.l_len = 1;
    if (fcntl(index, F_SETLK, &lock) != 0) return 1;
  }
  const std::string none(kHeaderBytes, '\0');
  if (pwrite(index, none.data(), none.size(), 0) != static_cast<ssize_t>(none.size())) return 1;
  std::printf("recovering\n");
  std::fflush(stdout);
  pause();
  return 0;
}

class KeyPrinter {
 public:
  KeyPrinter(const std::string& path, int works) {
    auto process =
        Process::Start({"sqlite_key_store_test", "--print_keys", path, absl::StrCat(works)});
    EXPECT_TRUE(process.ok()) << process.status();
    if (process.ok()) process_ = *std::move(process);
  }

  // Its whole output, once it waits to be killed.
  std::string Keys() {
    const auto done = process_->WaitForLine("done");
    EXPECT_TRUE(done.ok()) << done.status();
    return process_->Stdout();
  }
  void Kill() { process_->Kill(); }

 private:
  std::unique_ptr<Process> process_;
};

class SqliteKeyStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<SqliteKeyStore> Open() {
    auto store = SqliteKeyStore::Open(path_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  std::string KeyFor(KeyStore& store, const std::string& work) {
    const auto key = store.KeyFor(work);
    EXPECT_TRUE(key.ok()) << key.status();
    return key.value_or("");
  }
  // With a connection of another program.
  void RunSql(const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  void ExpectRefused(const std::string& path, const std::string& why) {
    const auto store = SqliteKeyStore::Open(path);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(store.status().message()), HasSubstr(why));
  }

  testing::TempFolder folder_;
  const std::string path_ = folder_.File("keys.sqlite");
};

TEST_F(SqliteKeyStoreTest, AWorkHasOneKeyUntilItIsForgotten) {
  const auto store = Open();
  const std::string key = KeyFor(*store, "order-42/charge");
  EXPECT_TRUE(Uuid::Parse(key).value().TimeOrderedAt().has_value());
  EXPECT_EQ(KeyFor(*store, "order-42/charge"), key);
  EXPECT_NE(KeyFor(*store, "order-43/charge"), key);
  ASSERT_TRUE(store->Forget("order-42/charge", key).ok());
  EXPECT_NE(KeyFor(*store, "order-42/charge"), key);
}

TEST_F(SqliteKeyStoreTest, KeysSurviveAClose) {
  const std::string key = KeyFor(*Open(), "order-42/charge");
  EXPECT_EQ(KeyFor(*Open(), "order-42/charge"), key);
}

// Two processes found that a key has expired: the slower one must not remove the key that the other
// created in its place.
TEST_F(SqliteKeyStoreTest, OnlyTheNamedKeyIsForgotten) {
  const auto store = Open();
  const std::string expired = KeyFor(*store, "order-42/charge");
  ASSERT_TRUE(store->Forget("order-42/charge", expired).ok());
  const std::string fresh = KeyFor(*store, "order-42/charge");
  EXPECT_TRUE(store->Forget("order-42/charge", expired).ok());
  EXPECT_EQ(KeyFor(*store, "order-42/charge"), fresh);
  EXPECT_TRUE(store->Forget("never heard of", fresh).ok());
  EXPECT_EQ(KeyFor(*store, "order-42/charge"), fresh);
}

TEST_F(SqliteKeyStoreTest, UnfinishedWorkIsListedOldestFirst) {
  const auto store = Open();
  EXPECT_THAT(store->Unfinished().value(), IsEmpty());
  const absl::Time before = absl::Now() - absl::Milliseconds(1);
  const std::string one = KeyFor(*store, "z");
  KeyFor(*store, "b");
  const std::string three = KeyFor(*store, "a");
  RunSql("UPDATE keys SET created_at = created_at - 5 WHERE work = 'z'");
  RunSql("UPDATE keys SET created_at = created_at + 5000000 WHERE work = 'a'");
  ASSERT_TRUE(store->Forget("b", KeyFor(*store, "b")).ok());
  const auto entries = store->Unfinished().value();
  ASSERT_THAT(entries,
              ElementsAre(Field(&KeyStore::Entry::work, "z"), Field(&KeyStore::Entry::work, "a")));
  EXPECT_EQ(entries[0].key, one);
  EXPECT_EQ(entries[1].key, three);
  EXPECT_GE(entries[0].created_at, before);
  EXPECT_LE(entries[0].created_at, absl::Now());
}

TEST_F(SqliteKeyStoreTest, WorkNeedsANameOfSomeLength) {
  const auto store = Open();
  for (const std::string& work : {std::string(), std::string(limits::kMaxWorkBytes + 1, 'w')}) {
    const absl::Status refusal = store->KeyFor(work).status();
    EXPECT_EQ(ReasonOf(refusal), Reason::kRequestInvalid);
    ASSERT_THAT(DetailsOf(refusal).violations, SizeIs(1));
    EXPECT_EQ(DetailsOf(refusal).violations[0].field, "work");
    EXPECT_EQ(ReasonOf(store->Forget(work, "key")), Reason::kRequestInvalid);
  }
  EXPECT_THAT(store->KeyFor(std::string(2000, 'w')).status().ToString(),
              HasSubstr(absl::StrCat("more than ", limits::kMaxWorkBytes, " bytes")));
  EXPECT_TRUE(store->KeyFor(std::string(limits::kMaxWorkBytes, 'w')).ok());
}

TEST_F(SqliteKeyStoreTest, AKeySurvivesKillNine) {
  KeyPrinter first(path_, 3);
  const std::string keys = first.Keys();
  EXPECT_EQ(std::count(keys.begin(), keys.end(), '\n'), 4) << keys;
  EXPECT_THAT(keys, ::testing::Not(HasSubstr("none")));
  first.Kill();
  KeyPrinter second(path_, 3);
  EXPECT_EQ(second.Keys(), keys);
}

TEST_F(SqliteKeyStoreTest, ProcessesGetOneKeyForOneWork) {
  std::vector<std::unique_ptr<KeyPrinter>> printers;
  for (int i = 0; i < 4; ++i) printers.push_back(std::make_unique<KeyPrinter>(path_, 25));
  const std::string keys = printers[0]->Keys();
  EXPECT_THAT(keys, ::testing::Not(HasSubstr("none")));
  for (const auto& printer : printers) EXPECT_EQ(printer->Keys(), keys);
}

// The narrowest case: all of them create the file at once.
TEST_F(SqliteKeyStoreTest, ConnectionsGetOneKeyForOneWork) {
  constexpr int kWorks = 20;
  Mutex mutex;
  std::map<std::string, std::set<std::string>> seen;
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      pthread_setname_np(pthread_self(), "key-store-user");
      const auto store = Open();
      for (int work = 0; store != nullptr && work < kWorks; ++work) {
        const std::string key = KeyFor(*store, WorkName(work));
        MutexLock lock(mutex);
        seen[WorkName(work)].insert(key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(seen, SizeIs(kWorks));
  for (const auto& [work, keys] : seen) EXPECT_THAT(keys, SizeIs(1)) << work;
}

// SQLite's own waiting does not cover this moment.
TEST_F(SqliteKeyStoreTest, AFileThatAnotherProcessIsMakingIsWaitedFor) {
  auto other = std::make_unique<SqliteWriteLock>(path_);
  BlockingCall<bool> opening([&] { return Open() != nullptr; });
  EXPECT_TRUE(opening.AwaitBlocked());
  other.reset();
  EXPECT_TRUE(opening.Get());
}

// Creates the store's table with a connection of its own once another connection has read the
// application id of the still empty file.
class CreationAfterTheFirstRead {
 public:
  explicit CreationAfterTheFirstRead(const std::string& path) {
    path_ = path;
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(&Watch));
  }
  ~CreationAfterTheFirstRead() {
    sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&Watch));
  }
  CreationAfterTheFirstRead(const CreationAfterTheFirstRead&) = delete;
  CreationAfterTheFirstRead& operator=(const CreationAfterTheFirstRead&) = delete;

  static bool created() { return created_; }

 private:
  static int Watch(sqlite3* connection, const char** /*error*/, const void* /*routines*/) {
    return sqlite3_trace_v2(connection, SQLITE_TRACE_PROFILE, &Finished, nullptr);
  }
  static int Finished(unsigned /*event*/, void* /*context*/, void* statement, void* /*nanos*/) {
    const absl::string_view sql = sqlite3_sql(static_cast<sqlite3_stmt*>(statement));
    if (path_.empty() || !absl::StrContains(sql, "application_id")) return 0;
    // Once: the creation reads it, too.
    const std::string path = std::exchange(path_, "");
    created_ = SqliteKeyStore::Open(path).ok();
    return 0;
  }

  static inline std::string path_;
  static inline bool created_ = false;
};

TEST_F(SqliteKeyStoreTest, AFileThatAnotherProcessJustMadeIsNoOtherProgramsFile) {
  RunSql("PRAGMA journal_mode = WAL");
  const CreationAfterTheFirstRead creation(path_);
  EXPECT_NE(Open(), nullptr);
  EXPECT_TRUE(creation.created());
}

TEST_F(SqliteKeyStoreTest, OneStoreServesManyThreads) {
  const auto store = Open();
  Mutex mutex;
  std::set<std::string> keys;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      pthread_setname_np(pthread_self(), "key-store-user");
      for (int work = 0; work < 10; ++work) {
        const std::string key = KeyFor(*store, WorkName(work));
        MutexLock lock(mutex);
        keys.insert(key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(keys, SizeIs(10));
}

TEST_F(SqliteKeyStoreTest, AFileLockedByAnotherProgramIsUnavailable) {
  SqliteKeyStoreOptions options;
  options.busy_timeout = absl::Milliseconds(1);
  const auto store = SqliteKeyStore::Open(path_, options);
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string known = KeyFor(**store, "known");
  auto other = std::make_unique<SqliteWriteLock>(path_);
  const absl::Status status = (*store)->KeyFor("secret-work").status();
  EXPECT_EQ(ReasonOf(status), Reason::kStoreUnavailable);
  EXPECT_THAT(status.ToString(), ::testing::Not(HasSubstr("secret-work")));
  EXPECT_EQ(ReasonOf((*store)->Forget("known", known)), Reason::kStoreUnavailable);
  EXPECT_EQ(KeyFor(**store, "known"), known) << "reading goes on";
  other.reset();
  EXPECT_TRUE((*store)->KeyFor("secret-work").ok());
}

// One that stands still while it writes.
TEST_F(SqliteKeyStoreTest, AReadDoesNotWaitForAnotherProgram) {
  SqliteKeyStoreOptions options;
  options.busy_timeout = absl::Minutes(1);
  const auto store = SqliteKeyStore::Open(path_, options);
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string known = KeyFor(**store, "known");
  auto other = std::make_unique<SqliteWriteLock>(path_);
  BlockingCall<absl::Status> write([&] { return (*store)->KeyFor("new").status(); });
  EXPECT_TRUE(write.AwaitBlocked());
  EXPECT_EQ(KeyFor(**store, "known"), known);
  EXPECT_THAT((*store)->Unfinished().value(), SizeIs(1));
  EXPECT_FALSE(write.Returned());
  other.reset();
  EXPECT_TRUE(write.Get().ok());
}

TEST_F(SqliteKeyStoreTest, ThreadsDoNotWaitForAnotherProgramOneAfterTheOther) {
  constexpr int kThreads = 30;
  constexpr absl::Duration kBusyTimeout = absl::Seconds(1);
  SqliteKeyStoreOptions options;
  options.busy_timeout = kBusyTimeout;
  const auto store = SqliteKeyStore::Open(path_, options);
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string known = KeyFor(**store, "known");
  auto other = std::make_unique<SqliteWriteLock>(path_);
  const absl::Time begin = absl::Now();
  std::vector<std::unique_ptr<BlockingCall<absl::Status>>> calls;
  for (int i = 0; i < kThreads; ++i) {
    calls.push_back(std::make_unique<BlockingCall<absl::Status>>(
        [&, i] { return (*store)->KeyFor(WorkName(i)).status(); }));
  }
  for (const auto& call : calls) EXPECT_EQ(ReasonOf(call->Get()), Reason::kStoreUnavailable);
  EXPECT_LT(absl::Now() - begin, kThreads * kBusyTimeout / 2);
  other.reset();
}

// One that stands still while it recovers the log: then reads wait too.
TEST_F(SqliteKeyStoreTest, ReadersDoNotWaitForAnotherProgramOneAfterTheOther) {
  constexpr int kThreads = 30;
  constexpr absl::Duration kBusyTimeout = absl::Seconds(1);
  SqliteKeyStoreOptions options;
  options.busy_timeout = kBusyTimeout;
  const auto store = SqliteKeyStore::Open(path_, options);
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string known = KeyFor(**store, "known");
  const auto other = Process::Start({"sqlite_key_store_test", "--recover_log", path_});
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE((*other)->WaitForLine("recovering").ok());
  const absl::Time begin = absl::Now();
  std::vector<std::unique_ptr<BlockingCall<absl::Status>>> calls;
  for (int i = 0; i < kThreads; ++i) {
    calls.push_back(std::make_unique<BlockingCall<absl::Status>>([&, i] {
      return i % 2 == 0 ? (*store)->KeyFor("known").status() : (*store)->Unfinished().status();
    }));
  }
  for (const auto& call : calls) EXPECT_EQ(ReasonOf(call->Get()), Reason::kStoreUnavailable);
  EXPECT_GE(absl::Now() - begin, kBusyTimeout / 2);
  EXPECT_LT(absl::Now() - begin, kThreads * kBusyTimeout / 2);
  (*other)->Kill();
  EXPECT_EQ(KeyFor(**store, "known"), known);
}

TEST_F(SqliteKeyStoreTest, AMissingTableIsUnavailable) {
  const auto store = Open();
  RunSql("DROP TABLE keys");
  const absl::Status status = store->KeyFor("work").status();
  EXPECT_EQ(ReasonOf(status), Reason::kStoreUnavailable);
  EXPECT_THAT(status.ToString(), HasSubstr("(SQLite result 1)")) << "the first fault";
  EXPECT_EQ(ReasonOf(store->Unfinished().status()), Reason::kStoreUnavailable);
}

TEST_F(SqliteKeyStoreTest, AKeyThatCouldNotBeWrittenIsNotHandedOut) {
  const auto store = Open();
  RunSql("CREATE TRIGGER full BEFORE INSERT ON keys BEGIN SELECT RAISE(FAIL, 'disk is full'); END");
  EXPECT_EQ(ReasonOf(store->KeyFor("work").status()), Reason::kStoreUnavailable);
}

TEST_F(SqliteKeyStoreTest, AKeyThatAnotherProcessMakesMeanwhileIsTheKey) {
  const auto store = Open();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE; INSERT INTO keys VALUES ('work', 'its-key', 1)",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  BlockingCall<std::string> key([&] { return KeyFor(*store, "work"); });
  EXPECT_TRUE(key.AwaitBlocked());
  ASSERT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  EXPECT_EQ(key.Get(), "its-key");
}

TEST_F(SqliteKeyStoreTest, OnlyTheOwnerMayReadTheFile) {
  const mode_t before = umask(022);
  Open();
  umask(before);
  struct stat file {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600U);
}

TEST_F(SqliteKeyStoreTest, AFileThatStaysLockedIsRefusedAfterTheBusyTimeout) {
  SqliteKeyStoreOptions options;
  options.busy_timeout = absl::Milliseconds(1);
  auto other = std::make_unique<SqliteWriteLock>(path_);
  const auto in_the_making = SqliteKeyStore::Open(path_, options);
  EXPECT_THAT(in_the_making.status().ToString(), HasSubstr("cannot use a write-ahead log"));
  other.reset();

  Open();
  other = std::make_unique<SqliteWriteLock>(path_);
  const auto made = SqliteKeyStore::Open(path_, options);
  EXPECT_THAT(made.status().ToString(), HasSubstr("cannot be written"));
  other.reset();
}

TEST_F(SqliteKeyStoreTest, WhatIsNoDatabaseIsNotWaitedFor) {
  SqliteKeyStoreOptions options;
  options.busy_timeout = absl::Hours(24);
  std::ofstream(path_) << std::string(4096, 'x');
  EXPECT_EQ(SqliteKeyStore::Open(path_, options).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// The write-ahead log would be beside the mount point, and be lost with the container: the key of
// work that was sent, too.
TEST_F(SqliteKeyStoreTest, AFileThatIsMountedAloneIsRefused) {
  Open();
  const std::string other = folder_.File("other");
  std::filesystem::create_directory(other);
  const std::string at = other + "/keys.sqlite";
  std::ofstream(at).flush();
  const int refused = testing::WithAFileMounted(path_, at, [](std::string mounted) {
    const absl::Status status = SqliteKeyStore::Open(mounted).status();
    return status.code() == absl::StatusCode::kFailedPrecondition &&
           std::string(status.message()).find("Mount its directory") != std::string::npos &&
           !std::filesystem::exists(mounted + "-wal");
  });
  if (refused == 2) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(testing::WithAFileMounted(folder_.path(), other,
                                      [](std::string mounted) {
                                        return SqliteKeyStore::Open(mounted + "/keys.sqlite").ok();
                                      }),
            0)
      << "a directory that is mounted";
}

class MovedKeyFileTest : public SqliteKeyStoreTest,
                         public ::testing::WithParamInterface<const char*> {};

// The next process would not find the keys, and make new ones.
TEST_P(MovedKeyFileTest, HandsOutNoKey) {
  const auto store = Open();
  const std::string known = KeyFor(*store, "known");
  const std::string file = path_ + GetParam();
  const auto expect_refused = [&] {
    EXPECT_EQ(ReasonOf(store->KeyFor("new").status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->KeyFor("known").status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->Forget("known", known)), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(store->Unfinished().status()), Reason::kStoreUnavailable);
  };
  std::filesystem::rename(file, file + ".away");
  expect_refused();
  std::ofstream(file).flush();
  expect_refused();
  std::filesystem::rename(file + ".away", file);
  EXPECT_EQ(KeyFor(*store, "known"), known) << "it is back";
  EXPECT_NE(KeyFor(*store, "new"), known);
}

INSTANTIATE_TEST_SUITE_P(Files, MovedKeyFileTest, ::testing::Values("", "-wal", "-shm"));

TEST_F(SqliteKeyStoreTest, AnotherWorkingDirectoryMovesNothing) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const auto store = SqliteKeyStore::Open("relative.sqlite");
  std::filesystem::current_path(before);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_NE(KeyFor(**store, "work"), "");
}

// A process may be killed before it has synced a commit. The next one finds that commit in the log,
// and must not return the key while a crash of the machine can still remove it.
TEST_F(SqliteKeyStoreTest, TheLogOfAKilledProcessIsOnTheDiskAfterOpen) {
  KeyPrinter killed(path_, 1);
  const std::string keys = killed.Keys();
  killed.Kill();
  const int log_syncs = Synced(path_ + "-wal");
  const int folder_syncs = Synced(folder_.path());
  const auto store = Open();
  EXPECT_GT(Synced(path_ + "-wal"), log_syncs);
  EXPECT_GT(Synced(folder_.path()), folder_syncs) << "the log's name";
  EXPECT_THAT(keys, HasSubstr(KeyFor(*store, WorkName(0))));
}

// The log has pages for which the file has no room.
TEST_F(SqliteKeyStoreTest, OnAFullDiskKnownKeysAreFound) {
  constexpr int kWorks = 100;
  constexpr std::uintmax_t kLogIndexBytes = 32 * 1024;
  const auto work_name = [](int i) {
    return absl::StrCat(WorkName(i), std::string(limits::kMaxWorkBytes / 2, 'w'));
  };
  const auto store = Open();
  std::vector<std::string> keys;
  for (int i = 0; i < kWorks; ++i) keys.push_back(KeyFor(*store, work_name(i)));
  const std::string copy = folder_.File("copy.sqlite");
  for (const char* const suffix : {"", "-wal"}) {
    std::filesystem::copy_file(path_ + suffix, copy + suffix);
  }
  const auto room = std::max(std::filesystem::file_size(copy), kLogIndexBytes);
  ASSERT_GT(std::filesystem::file_size(copy + "-wal"), 2 * room);
  const FullDisk full(room);
  const auto opened = SqliteKeyStore::Open(copy);
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (int i = 0; i < kWorks; ++i) EXPECT_EQ(KeyFor(**opened, work_name(i)), keys[i]);
  EXPECT_THAT((*opened)->Unfinished().value(), SizeIs(kWorks));
}

// Called by SQLite once it has opened a file.
std::function<void()> on_opened;
int CallOnOpened(sqlite3* /*database*/, char** /*error*/, const void* /*api*/) {
  if (on_opened) std::exchange(on_opened, nullptr)();
  return SQLITE_OK;
}

// Between the two connections of a store.
TEST_F(SqliteKeyStoreTest, ALinkThatChangesMeanwhileLeadsToOneFile) {
  const std::string first_key = KeyFor(*Open(), "work");
  const std::string other = folder_.File("other.sqlite");
  const std::string other_key = KeyFor(*SqliteKeyStore::Open(other).value(), "work");
  const std::string link = folder_.File("link.sqlite");
  std::filesystem::create_symlink(path_, link);
  bool changed = false;
  on_opened = [&] {
    std::filesystem::remove(link);
    std::filesystem::create_symlink(other, link);
    changed = true;
  };
  sqlite3_auto_extension(reinterpret_cast<void (*)()>(CallOnOpened));
  const auto store = SqliteKeyStore::Open(link);
  sqlite3_reset_auto_extension();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE(changed);
  EXPECT_EQ(KeyFor(**store, "work"), first_key);
  EXPECT_NE(first_key, other_key);
}

TEST_F(SqliteKeyStoreTest, WhatCannotHoldKeysIsRefused) {
  ExpectRefused(folder_.path(), "cannot be opened");
  ExpectRefused(folder_.File("missing/keys.sqlite"), "must exist");
  std::ofstream(folder_.File("text")) << std::string(4096, 'x');
  ExpectRefused(folder_.File("text"), "a separate file");
  // For SQLite the empty path is a temporary database, which it deletes on closing.
  ExpectRefused("", "a separate file");
}

TEST_F(SqliteKeyStoreTest, ADatabaseOfAnotherProgramIsRefusedAndUnchanged) {
  RunSql("PRAGMA journal_mode = DELETE; CREATE TABLE notes (text)");
  std::filesystem::permissions(path_, std::filesystem::perms(0640));
  ExpectRefused(path_, "another program");
  RunSql("INSERT INTO notes VALUES ('still here')");
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0640));
  std::ifstream file(path_, std::ios::binary);
  std::string header(20, '\0');
  ASSERT_TRUE(file.read(header.data(), 20));
  EXPECT_EQ(header[18], 1) << "the format in the header: 2 is a write-ahead log";
}

// Another program may have copied it so.
TEST_F(SqliteKeyStoreTest, FilesThatOthersMayReadAreRestricted) {
  const auto held = Open();
  KeyFor(*held, "work");
  const std::string copy = folder_.File("copy.sqlite");
  for (const char* const suffix : {"", "-wal"}) {
    std::filesystem::copy_file(path_ + suffix, copy + suffix);
    ASSERT_EQ(chmod((copy + suffix).c_str(), 0644), 0);
  }
  const auto store = SqliteKeyStore::Open(copy);
  ASSERT_TRUE(store.ok()) << store.status();
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    struct stat status {};
    ASSERT_EQ(stat((copy + suffix).c_str(), &status), 0) << suffix;
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << suffix;
  }
}

TEST_F(SqliteKeyStoreTest, AnEmptyDatabaseThatAnotherProgramHasMarkedIsRefused) {
  RunSql("PRAGMA user_version = 1");
  ExpectRefused(path_, "another program");
  RunSql("PRAGMA user_version = 0; PRAGMA application_id = 5");
  ExpectRefused(path_, "another program");
}

TEST_F(SqliteKeyStoreTest, ANewerSchemaIsRefused) {
  Open();
  RunSql("PRAGMA user_version = 99");
  ExpectRefused(path_, "schema version 99");
}

}  // namespace
}  // namespace idempotency::internal

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--print_keys") {
    return idempotency::internal::PrintKeys(argv[2], std::stoi(argv[3]));
  }
  if (argc == 3 && std::string(argv[1]) == "--recover_log") {
    return idempotency::internal::RecoverLog(argv[2]);
  }
  idempotency::internal::testing::RunUnderSubreaper();
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
