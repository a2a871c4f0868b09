// The possible states of a store when idempotencyd starts, and its possible changes while the
// daemon serves.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "postgres/socket_watchdog.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/options.h"
#include "tests/support/daemon_process.h"
#include "tests/support/fake_citus.h"
#include "tests/support/health_watch.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/programs.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

// Starts `serve`, which must refuse to: exit code 2, one line with the fault, no port opened
// before. `prefix` is a command that runs another one.
void ExpectRefused(const std::string& store, const std::string& message,
                   std::vector<std::string> prefix = {}) {
  SCOPED_TRACE(message);
  std::vector<std::string> command = std::move(prefix);
  command.insert(command.end(),
                 {ProgramPath("idempotencyd").value(), "serve", absl::StrCat("--store=", store),
                  "--listen=127.0.0.1:0", "--metrics="});
  auto process = Process::Start(command);
  ASSERT_TRUE(process.ok()) << process.status();
  const auto exit = (*process)->Wait();
  ASSERT_TRUE(exit.ok()) << exit.status();
  const std::string error = (*process)->Stderr();
  EXPECT_EQ(exit->code, 2) << error;
  EXPECT_EQ((*process)->Stdout(), "") << "it never served";
  EXPECT_THAT(error, HasSubstr(message));
  EXPECT_THAT(error, Not(HasSubstr("SELECT"))) << "no SQL";
}

TEST(UnusableAddress, IsRefusedWithoutQuotingThePassword) {
  for (const std::string store :
       {"", "nonsense", "sqlite:", "sqlite::memory:", "memory:", "mysql://u:secret-31d0@h/d",
        "postgresql://u:secret-31d0@h:99999/d", "postgresql://u:secret-31d0@h/d?nonsense=1",
        "postgresql://u:secret-31d0@[::1/d"}) {
    SCOPED_TRACE(store);
    auto process = Process::Start({"idempotencyd", "serve", absl::StrCat("--store=", store)});
    ASSERT_TRUE(process.ok()) << process.status();
    const auto exit = (*process)->Wait();
    ASSERT_TRUE(exit.ok()) << exit.status();
    EXPECT_EQ(exit->code, 2);
    EXPECT_THAT((*process)->Stderr(), HasSubstr("--store"));
    EXPECT_THAT((*process)->Stderr(), Not(HasSubstr("secret-31d0")));
  }
}

// SQLite.

class SqliteFile : public ::testing::Test {
 protected:
  // A file with a record in it, as a daemon leaves it.
  SqliteFile() {
    DaemonProcess daemon(store_);
    EXPECT_TRUE(ServiceClient(daemon.address()).Call(SomeReserve("kept")).ok());
    EXPECT_EQ(daemon.Terminate().code, 0);
  }

  void Overwrite(std::streamoff at, const std::string& bytes) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file << bytes;
  }

  TempFolder folder_;
  const std::string path_ = folder_.File("records.db");
  const std::string store_ = "sqlite:" + path_;
};

TEST_F(SqliteFile, Corrupt) {
  // All but the header and the schema.
  Overwrite(4096, std::string(fs::file_size(path_) - 4096, '\x5a'));
  ExpectRefused(store_, "is damaged; restore it from a backup");
  ExpectRefused(store_, "before the next start set not_before in --config to the time now");
}

// As in a container whose volume was left out.
TEST_F(SqliteFile, ANewOneIsLogged) {
  const std::string event = "the store is a new file without records";
  {
    DaemonProcess daemon(store_);
    EXPECT_TRUE(HealthWatch(daemon.address()).AwaitServing(true));
    EXPECT_EQ(daemon.Terminate().code, 0);
    EXPECT_THAT(daemon.process().Stderr(), Not(HasSubstr(event)));
  }
  DaemonProcess daemon("sqlite:" + folder_.File("other.db"));
  EXPECT_EQ(daemon.Terminate().code, 0);
  EXPECT_THAT(daemon.process().Stderr(), HasSubstr(event));
}

TEST_F(SqliteFile, NotADatabase) {
  Overwrite(0, std::string(4096, 'x'));
  ExpectRefused(store_, "is not a SQLite database");
}

TEST_F(SqliteFile, ANewerSchema) {
  // user_version is at 60 in the header, application_id at 68.
  Overwrite(60, std::string("\0\0\0\x63", 4));
  ExpectRefused(store_, "has schema version 99, this build supports at most 5");
}

TEST_F(SqliteFile, AnotherProgramsDatabase) {
  Overwrite(68, std::string(4, '\x11'));
  ExpectRefused(store_, "is the database of another program");
}

TEST_F(SqliteFile, ReadOnly) {
  fs::permissions(path_, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  fs::permissions(path_ + ".lock", fs::perms::all);
  fs::permissions(folder_.path(), fs::perms::all);
  // Permissions do not bind root.
  std::vector<std::string> as_nobody;
  if (geteuid() == 0) as_nobody = {"/usr/bin/setpriv", "--reuid=65534", "--clear-groups"};
  ExpectRefused(store_, "is read-only; make it writable", as_nobody);
}

TEST_F(SqliteFile, InUseByAnotherDaemon) {
  DaemonProcess first(store_);
  ExpectRefused(store_, "another process is using this store; stop it");
  EXPECT_TRUE(ServiceClient(first.address()).Call(SomeReserve("kept"))->has_in_flight());
}

// Schemas of Postgres.

// The finished process of `idempotencyd migrate`.
struct Ended {
  int code = -1;
  std::string out;
  std::string err;
};

Ended RunMigrate(const std::string& store, const std::vector<std::string>& flags = {}) {
  std::vector<std::string> command = {"idempotencyd", "migrate", "--store=" + store};
  command.insert(command.end(), flags.begin(), flags.end());
  const auto process = Process::Start(command).value();
  const auto exit = process->Wait();
  return {exit.ok() ? exit->code.value_or(-1) : -1, process->Stdout(), process->Stderr()};
}

class PostgresSchemas : public ::testing::Test {
 protected:
  // A database for itself: the daemon's schema has a fixed name.
  const std::string store_ = PostgresCluster::Shared().NewDatabase();
};

TEST_F(PostgresSchemas, None) { ExpectRefused(store_, "run `idempotencyd migrate`"); }

TEST_F(PostgresSchemas, Older) {
  auto migrate = Process::Start({"idempotencyd", "migrate", "--store=" + store_, "--to=1"});
  ASSERT_EQ((*migrate)->Wait()->code, 0) << (*migrate)->Stderr();
  ExpectRefused(store_, "is at version 1, this program needs 8: run `idempotencyd migrate`");
}

TEST_F(PostgresSchemas, Newer) {
  MigrateStore(store_);
  ExecuteSql(store_,
             "INSERT INTO idempotency.schema_migrations (version, name, checksum)"
             " VALUES (99, 'future', 'x')");
  ExpectRefused(store_, "is at version 99, this program supports versions up to 8: run a newer");
}

// A newer one that allows this build to serve it: a rollback starts, also where `migrate` runs
// before `serve`.
TEST_F(PostgresSchemas, NewerAndCompatible) {
  MigrateStore(store_);
  ExecuteSql(store_,
             "INSERT INTO idempotency.schema_migrations (version, name, checksum, serves_from)"
             " VALUES (99, 'future', 'x', 1)");
  const Ended migrated = RunMigrate(store_);
  EXPECT_EQ(migrated.code, 0) << migrated.err;
  EXPECT_THAT(migrated.out, HasSubstr("newer than this build's"));
  DaemonProcess daemon(store_);
  EXPECT_TRUE(HealthWatch(daemon.address()).AwaitServing(true));
}

TEST_F(PostgresSchemas, GoingBackRequiresConfirmationAndIsRefusedWhileADaemonServes) {
  MigrateStore(store_);
  Ended back = RunMigrate(store_, {"--to=0"});
  EXPECT_EQ(back.code, 2);
  EXPECT_THAT(back.err, HasSubstr("repeat the command with --yes"));
  {
    DaemonProcess daemon(store_);
    const ServiceClient client(daemon.address());
    ASSERT_TRUE(client.Call(SomeReserve("kept")).ok());
    back = RunMigrate(store_, {"--to=0", "--yes"});
    EXPECT_EQ(back.code, 2);
    EXPECT_THAT(back.err, HasSubstr("stop every idempotencyd first"));
    EXPECT_TRUE(client.Call(SomeReserve("kept"))->has_in_flight());
    daemon.Terminate();
  }
  // The server detects the end of a session a moment after it.
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(30);
  while ((back = RunMigrate(store_, {"--to=0", "--yes"})).code != 0 && Clock::now() < deadline) {
  }
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("reverted 8, 7, 6, 5, 4, 3, 2, 1"));
}

// A transaction that a client forgot to end.
TEST_F(PostgresSchemas, MigrateReportsItsWaitForALockAndContinuesAfterIt) {
  ASSERT_EQ(RunMigrate(store_, {"--to=3"}).code, 0);
  PostgresOptions options;
  options.url = store_;
  options.idle_in_transaction_timeout = absl::Hours(1);
  SocketWatchdog watchdog;
  const auto reader = PostgresConnection::Open(options, watchdog).value();
  ASSERT_TRUE(reader->Begin().ok());
  ASSERT_TRUE(reader->ExecuteScript("SELECT count(*) FROM idempotency.records").ok());
  const auto migrate = Process::Start({"idempotencyd", "migrate", "--store=" + store_}).value();
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  while (migrate->Stderr().find("waits for a lock") == std::string::npos) {
    ASSERT_LT(Clock::now(), deadline) << migrate->Stderr();
    std::this_thread::yield();
  }
  ASSERT_TRUE(reader->Rollback().ok());
  const auto exit = migrate->Wait(std::chrono::seconds(60));
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_EQ(exit->code, 0) << migrate->Stderr();
  EXPECT_THAT(migrate->Stdout(), HasSubstr("applied 4, 5"));
}

TEST_F(PostgresSchemas, RecreatedUnderADaemonIsDetected) {
  MigrateStore(store_);
  DaemonProcess daemon(store_);
  HealthWatch health(daemon.address());
  const ServiceClient client(daemon.address());
  ASSERT_TRUE(client.Call(SomeReserve("known")).ok());
  ExecuteSql(store_, "DROP SCHEMA idempotency CASCADE");
  EXPECT_TRUE(health.AwaitServing(false));
  MigrateStore(store_);
  // The reason changes with the next inspection.
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(30);
  absl::Status refused;
  do {
    refused = client.Call(SomeReserve("known")).status();
    EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable) << refused;
  } while (refused.message().find("was recreated") == absl::string_view::npos &&
           Clock::now() < deadline);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("was recreated"));
  EXPECT_TRUE(health.AwaitServing(false));
}

// Their distribution holds locks for which a daemon that starts waits.
TEST_F(PostgresSchemas, DistributedDuringTheStart) {
  MigrateStore(store_);
  ExecuteSql(store_, kFakeCitus);
  PostgresOptions options;
  options.url = store_;
  options.idle_in_transaction_timeout = absl::Hours(1);
  SocketWatchdog watchdog;
  const auto distribution = PostgresConnection::Open(options, watchdog).value();
  ASSERT_TRUE(distribution->Begin().ok());
  const auto locked = distribution->ExecuteScript(
      "SET LOCAL allow_system_table_mods TO on; LOCK TABLE records IN ACCESS EXCLUSIVE MODE;"
      " INSERT INTO pg_dist_partition VALUES ('records', 'h')");
  ASSERT_TRUE(locked.ok()) << locked.status();
  std::thread distributes([&] {
    pthread_setname_np(pthread_self(), "distributes");
    const std::string waits =
        "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted"
        " AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))";
    const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
    while (Clock::now() < deadline) {
      const auto found = distribution->ExecuteScript(waits);
      if (!found.ok() || found->Bool(0, 0)) break;
    }
    EXPECT_TRUE(distribution->Commit().ok());
  });
  DaemonProcess daemon(store_);
  EXPECT_TRUE(HealthWatch(daemon.address()).AwaitServing(true));
  distributes.join();
  daemon.Terminate();
  EXPECT_THAT(daemon.process().Stderr(), HasSubstr("one statement for each record"));
}

TEST_F(PostgresSchemas, OfAnotherName) {
  const std::string elsewhere = store_ + "&options=-csearch_path%3Dpayments_keys";
  MigrateStore(elsewhere);
  DaemonProcess daemon(elsewhere);
  ASSERT_TRUE(ServiceClient(daemon.address()).Call(SomeReserve("kept")).ok());
  ExecuteSql(store_, "SELECT 1 / count(*) FROM payments_keys.records WHERE key = 'kept'");
  ExpectRefused(store_, "run `idempotencyd migrate`");
}

// As docs/roles.md describes.
TEST_F(PostgresSchemas, OfAnotherOwner) {
  ExecuteSql(store_, "CREATE ROLE served LOGIN");
  const Ended migrated = RunMigrate(store_, {"--grant_to=served"});
  EXPECT_EQ(migrated.code, 0) << migrated.err;
  std::string as_served = store_;
  as_served.replace(as_served.find("postgres@"), 9, "served@");
  DaemonProcess daemon(as_served, {"--sweep_interval=100ms"});
  EXPECT_TRUE(HealthWatch(daemon.address()).AwaitServing(true));
  const ServiceClient client(daemon.address());
  const auto granted = client.Call(SomeReserve("done"));
  ASSERT_TRUE(granted.ok()) << granted.status();
  EXPECT_TRUE(
      client.Call(SomeComplete("done", granted->reserved().reservation_token(), "body")).ok());
  EXPECT_TRUE(client.Call(SomeReserve("done"))->has_replay());
}

TEST_F(PostgresSchemas, HalfApplied) {
  MigrateStore(store_);
  ExecuteSql(store_, "DROP TABLE idempotency.checkpoints");
  ExpectRefused(store_, "it was changed by hand");
}

TEST_F(PostgresSchemas, OfAnotherProgram) {
  ExecuteSql(store_, "CREATE SCHEMA idempotency; CREATE TABLE idempotency.records (id int)");
  ExpectRefused(store_, "contains tables that no migration of this program created");
}

// An unavailable Postgres.

class PostgresThatGoes : public ::testing::Test {
 protected:
  std::unique_ptr<PostgresCluster> cluster_ = PostgresCluster::Create().value();
};

TEST_F(PostgresThatGoes, DownAtTheStartTheDaemonWaitsAndRecovers) {
  MigrateStore(cluster_->url());
  ASSERT_TRUE(cluster_->Stop().ok());
  DaemonProcess daemon(cluster_->url());
  HealthWatch health(daemon.address());
  EXPECT_TRUE(health.AwaitServing(false));
  const ServiceClient client(daemon.address());
  const absl::Status refused = client.Call(SomeReserve("early")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable);
  EXPECT_TRUE(DetailsOf(refused).retry_delay.has_value());

  ASSERT_TRUE(cluster_->Start().ok());
  const Clock::time_point up = Clock::now();
  ASSERT_TRUE(health.AwaitServing(true)) << daemon.process().Stderr();
  std::cout << "serving "
            << std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - up).count()
            << " ms after Postgres\n";
  EXPECT_TRUE(client.Call(SomeReserve("early"))->has_reserved());
  EXPECT_EQ(daemon.Terminate().code, 0);
}

TEST_F(PostgresThatGoes, BackWithoutASchemaEndsTheDaemon) {
  ASSERT_TRUE(cluster_->Stop().ok());
  DaemonProcess daemon(cluster_->url());
  ASSERT_TRUE(cluster_->Start().ok());
  const auto exit = daemon.process().Wait();
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_EQ(exit->code, 2);
  EXPECT_THAT(daemon.process().Stderr(), HasSubstr("run `idempotencyd migrate`"));
}

// Callers that reserve and complete, and repeat open operations with the same tokens, as the
// documentation requires.
class Callers {
 public:
  explicit Callers(const std::string& address) {
    for (int number = 0; number < kCount; ++number) {
      threads_.emplace_back([this, address, number] { Run(ServiceClient(address), number); });
    }
  }
  ~Callers() { Stop(); }

  static constexpr int kCount = 8;

  void Stop() {
    {
      MutexLock lock(mutex_);
      stopped_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // Waits until every caller was acknowledged, or refused, that many times more.
  bool AwaitAcknowledged(int more) { return AwaitMore(&Counts::acknowledged, more); }
  bool AwaitRefused(int more) { return AwaitMore(&Counts::refused, more); }

  // After Stop(): the keys whose completion was acknowledged. The body is the key.
  const std::vector<std::string>& acknowledged() const { return acknowledged_; }

 private:
  struct Counts {
    int acknowledged = 0;
    int refused = 0;
  };

  bool AwaitMore(int Counts::*count, int more) {
    const auto deadline = Clock::now() + std::chrono::minutes(1);
    MutexLock lock(mutex_);
    std::array<Counts, kCount> target = counts_;
    for (int i = 0; i < kCount; ++i) {
      while (counts_[i].*count < target[i].*count + more) {
        if (!changed_.WaitUntil(lock, deadline) && Clock::now() >= deadline) return false;
      }
    }
    return true;
  }

  // The answer, or the last refusal if it was stopped.
  template <typename Request>
  auto UntilAnswered(const ServiceClient& client, const Request& request, int number) {
    while (true) {
      auto answer = client.Call(request);
      if (answer.ok()) return answer;
      EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable) << answer.status();
      {
        MutexLock lock(mutex_);
        ++counts_[number].refused;
        changed_.NotifyAll();
      }
      if (stopped()) return answer;
      // A client's backoff, not a wait for a condition.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  void Run(const ServiceClient& client, int number) {
    for (int n = 0; !stopped(); ++n) {
      const std::string key = absl::StrCat("caller-", number, "-", n);
      v1::ReserveRequest reserve = SomeReserve(key);
      reserve.set_request_token(Uuid::Random().ToString());
      const auto reserved = UntilAnswered(client, reserve, number);
      if (!reserved.ok()) return;
      ASSERT_TRUE(reserved->has_reserved()) << key;
      const auto completed = UntilAnswered(
          client, SomeComplete(key, reserved->reserved().reservation_token(), key), number);
      if (!completed.ok()) return;
      MutexLock lock(mutex_);
      acknowledged_.push_back(key);
      ++counts_[number].acknowledged;
      changed_.NotifyAll();
    }
  }

  bool stopped() {
    MutexLock lock(mutex_);
    return stopped_;
  }

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<Counts, kCount> counts_ ABSL_GUARDED_BY(mutex_) = {};
  std::vector<std::string> acknowledged_;
  std::vector<std::thread> threads_;
};

TEST_F(PostgresThatGoes, DownUnderLoadNothingAcknowledgedIsLostAndItIsFoundAgainSoon) {
  MigrateStore(cluster_->url());
  DaemonProcess daemon(cluster_->url());
  HealthWatch health(daemon.address());
  Callers callers(daemon.address());
  ASSERT_TRUE(callers.AwaitAcknowledged(5));
  ASSERT_TRUE(cluster_->StopImmediate().ok());
  // Long enough for every backoff to have reached its longest pause.
  EXPECT_TRUE(callers.AwaitRefused(150));
  EXPECT_TRUE(health.AwaitServing(false));
  ASSERT_TRUE(cluster_->Start().ok());
  const Clock::time_point up = Clock::now();
  EXPECT_TRUE(callers.AwaitAcknowledged(1));
  const auto recovery = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - up);
  EXPECT_TRUE(health.AwaitServing(true));
  std::cout << "acknowledged again " << recovery.count() << " ms after Postgres\n";
  EXPECT_LT(recovery.count(), 1000);
  callers.Stop();

  const ServiceClient client(daemon.address());
  for (const std::string& key : callers.acknowledged()) {
    const auto replay = client.Call(SomeReserve(key));
    ASSERT_TRUE(replay.ok() && replay->has_replay()) << key << ": " << replay.status();
    EXPECT_EQ(replay->replay().reply().body(), key);
  }
  EXPECT_THAT(daemon.process().Stderr(), Not(HasSubstr("caller-")));
  EXPECT_THAT(daemon.process().Stderr(), Not(HasSubstr("UPDATE")));
}

}  // namespace
}  // namespace idempotency::internal::testing
