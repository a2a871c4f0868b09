// How idempotencyd gets to its Postgres: not through a pooler, with a password that is changed
// while it serves, and over TLS that it verifies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "grpc_idempotency/errors.h"
#include "tests/support/certificate_authority.h"
#include "tests/support/daemon_process.h"
#include "tests/support/held_port.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"
#include "tests/support/process.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Result {
  int code;
  std::string err;
};

Result RunDaemon(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "idempotencyd");
  const auto process = testing::Process::Start(arguments);
  EXPECT_TRUE(process.ok()) << process.status();
  const auto ended = (*process)->Wait();
  EXPECT_TRUE(ended.ok()) << ended.status();
  return {ended->code.value_or(-1), (*process)->Stderr()};
}

std::string Escaped(const std::string& path) { return absl::StrReplaceAll(path, {{"/", "%2F"}}); }

// Files of servers that do not run as root.
class ServerFiles {
 public:
  ServerFiles() { GiveAway(folder_.path(), 0755); }

  std::string Write(const std::string& name, const std::string& content, mode_t mode = 0644) {
    std::ofstream(folder_.File(name)) << content;
    GiveAway(folder_.File(name), mode);
    return folder_.File(name);
  }
  const std::string& path() const { return folder_.path(); }
  std::string File(const std::string& name) const { return folder_.File(name); }

 private:
  static void GiveAway(const std::string& path, mode_t mode) {
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    if (geteuid() != 0) return;
    const passwd* const user = getpwnam("postgres");
    ASSERT_NE(user, nullptr);
    EXPECT_EQ(chown(path.c_str(), user->pw_uid, user->pw_gid), 0);
  }

  testing::TempFolder folder_;
};

class PoolerTest : public ::testing::TestWithParam<const char*> {};

// A real pgbouncer. In each of its modes: which one it is in cannot be seen from a session.
TEST_P(PoolerTest, IsRefusedAtTheStart) {
  const std::string direct = testing::PostgresCluster::Shared().NewDatabase();
  ASSERT_EQ(RunDaemon({"migrate", "--store=" + direct}).code, 0);
  const std::string database = direct.substr(direct.rfind('@') + 2);
  const std::string name = database.substr(0, database.find('?'));
  const std::string server =
      absl::StrReplaceAll(direct.substr(direct.rfind("host=") + 5), {{"%2F", "/"}});
  ServerFiles files;
  const std::string settings = files.Write(
      "pgbouncer.ini",
      absl::StrCat("[databases]\n* = user=postgres host=", server, "\n[pgbouncer]\nlisten_addr =\n",
                   "unix_socket_dir = ", files.path(), "\nlisten_port = 6432\nauth_type = any\n",
                   "pool_mode = ", GetParam(), "\nignore_startup_parameters = extra_float_digits\n",
                   geteuid() == 0 ? "user = postgres\n" : ""));
  auto pooler =
      testing::Process::Start({"/bin/sh", "-c", "exec pgbouncer \"$1\" 2>&1", "sh", settings});
  ASSERT_TRUE(pooler.ok()) << pooler.status();
  const std::string pooled = absl::StrCat("--store=postgresql://postgres@/", name,
                                          "?host=", Escaped(files.path()), "&port=6432");
  // Until it listens, it cannot be reached, which is no refusal.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!std::filesystem::exists(files.File(".s.PGSQL.6432"))) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << (*pooler)->Stdout();
    std::this_thread::yield();
  }
  for (const char* command : {"migrate", "serve"}) {
    std::vector<std::string> arguments = {command, pooled};
    if (arguments.front() == "serve") {
      arguments.insert(arguments.end(), {"--listen=127.0.0.1:0", "--metrics="});
    }
    const Result refused = RunDaemon(arguments);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("goes through a pooler")) << (*pooler)->Stdout();
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, PoolerTest, ::testing::Values("session", "transaction"));

// What an operator reads of a standby, or of a restored backup.
TEST(ReadOnlyTest, AStandbyIsReadAndNothingIsWritten) {
  const auto primary = testing::PostgresCluster::Create();
  ASSERT_TRUE(primary.ok()) << primary.status();
  ASSERT_EQ(RunDaemon({"migrate", "--store=" + (*primary)->url()}).code, 0);
  v1::ReserveResponse reserved;
  {
    const testing::DaemonProcess daemon((*primary)->url());
    const testing::ServiceClient client(daemon.address());
    reserved = client.Call(testing::SomeReserve("order-1")).value();
  }
  const auto standby = testing::PostgresCluster::CreateStandby(**primary);
  ASSERT_TRUE(standby.ok()) << standby.status();
  for (const std::string& store : {(*standby)->url(), (*primary)->url()}) {
    testing::DaemonProcess daemon(store, {"--read_only", "--sweep_interval=100ms"});
    const testing::ServiceClient client(daemon.address());
    const auto read = client.Call(testing::SomeGet("order-1"));
    ASSERT_TRUE(read.ok()) << read.status() << daemon.process().Stderr();
    EXPECT_EQ(read->record().record_id(), reserved.record_id());
    for (const absl::Status& refused :
         {client.Call(testing::SomeReserve("order-2")).status(),
          client.Call(testing::SomeReserve("order-1")).status(),
          client
              .Call(testing::SomeComplete("order-1", reserved.reserved().reservation_token(), "b"))
              .status(),
          client.Call(testing::SomeRelease("order-1", reserved.reserved().reservation_token()))
              .status(),
          client.Call(testing::SomeExtend("order-1", reserved.reserved().reservation_token()))
              .status()}) {
      EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable);
      EXPECT_THAT(std::string(refused.message()), HasSubstr("--read_only"));
    }
    EXPECT_FALSE(client.Call(testing::SomeGet("order-2")).ok());
    EXPECT_EQ(daemon.Terminate().code, 0);
  }
}

// A Postgres on 127.0.0.1 with a certificate, where the role `application` needs a password.
class SecuredPostgresTest : public ::testing::Test {
 protected:
  SecuredPostgresTest() : certificate_(authority_.Issue("db", "IP:127.0.0.1")) {
    const std::string hba = files_.Write("hba",
                                         "local all postgres trust\n"
                                         "hostssl all application 127.0.0.1/32 scram-sha-256\n");
    testing::PostgresClusterOptions options;
    options.settings = {"hba_file=" + hba,
                        "listen_addresses=127.0.0.1",
                        "port=" + port_.address().substr(port_.address().rfind(':') + 1),
                        "ssl=on",
                        "ssl_cert_file=" + files_.Write("db.pem", certificate_.certificate),
                        "ssl_key_file=" + files_.Write("db.key", certificate_.key, 0600)};
    auto cluster = testing::PostgresCluster::Create(options);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    owner_ =
        absl::StrCat(cluster_->url(), "&port=", options.settings[2].substr(sizeof("port=") - 1));
    testing::ExecuteSql(owner_, "CREATE ROLE application LOGIN PASSWORD 'first'");
    EXPECT_EQ(RunDaemon({"migrate", "--store=" + owner_, "--grant_to=application"}).code, 0);
    WritePassword("first");
    WriteAuthority("ca.pem", authority_.root());
  }

  void WriteAuthority(const std::string& name, const std::string& content) {
    std::ofstream(folder_.File(name)) << content;
  }
  // In one step, as secrets are replaced.
  void WritePassword(const std::string& password) {
    std::ofstream(folder_.File("new")) << "127.0.0.1:*:*:application:" << password << "\n";
    ASSERT_EQ(chmod(folder_.File("new").c_str(), 0600), 0);
    std::filesystem::rename(folder_.File("new"), folder_.File("passfile"));
  }
  std::string Store(const std::string& host, const std::string& authority) const {
    return absl::StrCat(
        "postgresql://application@", host, ":",
        port_.address().substr(port_.address().rfind(':') + 1),
        "/postgres?sslmode=verify-full&sslrootcert=", Escaped(folder_.File(authority)),
        "&passfile=", Escaped(folder_.File("passfile")));
  }

  testing::HeldPort port_;
  testing::TempFolder folder_;
  ServerFiles files_;
  testing::CertificateAuthority authority_;
  testing::CertificateAuthority::Identity certificate_;
  std::unique_ptr<testing::PostgresCluster> cluster_;
  std::string owner_;
};

TEST_F(SecuredPostgresTest, APasswordIsChangedWhileItServes) {
  testing::DaemonProcess daemon(Store("127.0.0.1", "ca.pem"));
  const testing::ServiceClient client(daemon.address());
  ASSERT_TRUE(client.Call(testing::SomeReserve("before")).ok());
  // As docs/operations.md says.
  WritePassword("second");
  testing::ExecuteSql(owner_, "ALTER ROLE application PASSWORD 'second'");
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(client.Call(testing::SomeReserve(absl::StrCat("during-", i))).ok());
  }
  // New sessions have the new password.
  testing::ExecuteSql(owner_,
                      "SELECT count(pg_terminate_backend(pid, 20000)) FROM pg_stat_activity"
                      " WHERE usename = 'application'");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  absl::Status answered;
  do {
    answered = client.Call(testing::SomeReserve("after")).status();
  } while (!answered.ok() && std::chrono::steady_clock::now() < deadline);
  EXPECT_TRUE(answered.ok()) << answered << daemon.process().Stderr();
  EXPECT_THAT(daemon.process().Stderr(), Not(HasSubstr("second")));
}

TEST_F(SecuredPostgresTest, AServerThatIsNotTheOneIsNotUsed) {
  testing::CertificateAuthority other;
  WriteAuthority("other.pem", other.root());
  const Result forged =
      RunDaemon({"migrate", "--status", "--store=" + Store("127.0.0.1", "other.pem")});
  EXPECT_EQ(forged.code, 2);
  EXPECT_THAT(forged.err, HasSubstr("certificate verify failed"));
  const Result renamed =
      RunDaemon({"migrate", "--status", "--store=" + Store("localhost", "ca.pem")});
  EXPECT_EQ(renamed.code, 2);
  EXPECT_THAT(renamed.err, HasSubstr("does not match host name"));
  EXPECT_EQ(RunDaemon({"migrate", "--status", "--store=" + Store("127.0.0.1", "ca.pem")}).code, 0);
}

}  // namespace
}  // namespace idempotency::internal
