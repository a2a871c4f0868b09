// How idempotencyd gets to its Postgres: not through a pooler, with a password that is changed
// while it serves, over TLS that it verifies, and with logins that may do no more than they need.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "tests/support/certificate_authority.h"
#include "tests/support/daemon_process.h"
#include "tests/support/held_port.h"
#include "tests/support/metrics_page.h"
#include "tests/support/pgbouncer_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"
#include "tests/support/process.h"
#include "tests/support/programs.h"
#include "tests/support/server_files.h"
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

class PoolerTest : public ::testing::TestWithParam<const char*> {};

// A real pgbouncer. In each of its modes: which one it is in cannot be seen from a session.
TEST_P(PoolerTest, IsRefusedAtTheStart) {
  const std::string direct = testing::PostgresCluster::Shared().NewDatabase();
  ASSERT_EQ(RunDaemon({"migrate", "--store=" + direct}).code, 0);
  const std::string database = direct.substr(direct.rfind('@') + 2);
  const std::string name = database.substr(0, database.find('?'));
  const std::string server =
      absl::StrReplaceAll(direct.substr(direct.rfind("host=")), {{"%2F", "/"}});
  const auto pooler =
      testing::PgbouncerProcess::Start(absl::StrCat(server, " user=postgres"), GetParam());
  ASSERT_TRUE(pooler.ok()) << pooler.status();
  const std::string pooled = "--store=" + (*pooler)->Url("postgres", name);
  for (const char* command : {"migrate", "serve"}) {
    std::vector<std::string> arguments = {command, pooled};
    if (arguments.front() == "serve") {
      arguments.insert(arguments.end(), {"--listen=127.0.0.1:0", "--metrics="});
    }
    const Result refused = RunDaemon(arguments);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("goes through a pooler")) << (*pooler)->Log();
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, PoolerTest, ::testing::Values("session", "transaction"));

// The reads of an operator from a standby, or from a restored backup.
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
    // No alert expects sweeps of it.
    const auto page = testing::MetricsPage::Fetch(daemon.metrics_address());
    EXPECT_EQ(page.types().count("idempotency_sweep_interval_seconds"), 1u);
    EXPECT_EQ(page.Value("idempotency_sweep_interval_seconds"), 0);
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
  testing::ServerFiles files_;
  testing::CertificateAuthority authority_;
  testing::CertificateAuthority::Identity certificate_;
  std::unique_ptr<testing::PostgresCluster> cluster_;
  std::string owner_;
};

TEST_F(SecuredPostgresTest, APasswordIsChangedWhileItServes) {
  testing::DaemonProcess daemon(Store("127.0.0.1", "ca.pem"));
  const testing::ServiceClient client(daemon.address());
  ASSERT_TRUE(client.Call(testing::SomeReserve("before")).ok());
  // As docs/roles.md says.
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

// The commands of a section of docs/roles.md, one text for each block.
std::vector<std::string> CommandsOf(const std::string& section) {
  std::ifstream file(IDEMPOTENCY_ROLES_PAGE);
  std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  page.erase(0, page.find("## " + section + "\n"));
  page.erase(page.find("\n## ", 1));
  std::vector<std::string> blocks;
  std::size_t at = 0;
  while ((at = page.find("```\n", at)) != std::string::npos) {
    const std::size_t end = page.find("```\n", at + 4);
    blocks.push_back(page.substr(at + 4, end - at - 4));
    at = end + 4;
  }
  return blocks;
}

// A server of its own: roles belong to a server.
class LeastPrivilegeTest : public ::testing::Test {
 protected:
  LeastPrivilegeTest() {
    auto cluster = testing::PostgresCluster::Create();
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    testing::ExecuteSql(cluster_->url(), "CREATE ROLE dba LOGIN SUPERUSER");
    testing::ExecuteSql(cluster_->url(), "CREATE DATABASE app");
  }

  std::string Url(const std::string& user) const {
    const std::string url = cluster_->url();
    return absl::StrCat("postgresql://", user, "@/app", url.substr(url.find('?')));
  }
  void Sql(const std::string& sql) { testing::ExecuteSql(Url("dba"), sql); }
  // Pastes commands of the manual, with the addresses of this server.
  void Paste(const std::string& commands) {
    std::string pasted = commands;
    for (const char* const user : {"dba", "payments_deploy"}) {
      pasted = absl::StrReplaceAll(pasted, {{absl::StrCat("postgresql://", user, "@db/app"),
                                             absl::StrCat("'", Url(user), "'")}});
    }
    pasted = absl::StrReplaceAll(
        pasted,
        {{"idempotencyd ", absl::StrCat(testing::ProgramPath("idempotencyd").value(), " ")}});
    const auto shell = testing::Process::Start({"/bin/sh", "-e", "-c", pasted});
    ASSERT_TRUE(shell.ok()) << shell.status();
    const auto ended = (*shell)->Wait();
    ASSERT_TRUE(ended.ok()) << ended.status();
    ASSERT_EQ(ended->code, 0) << pasted << (*shell)->Stderr();
  }
  void PasteTheManual() {
    const std::vector<std::string> blocks = CommandsOf("Roles");
    ASSERT_EQ(blocks.size(), 2u);
    Paste(blocks[0]);
    const std::size_t serve = blocks[1].find("idempotencyd serve ");
    Paste(blocks[1].substr(0, serve));
    // The last command, which Serve() runs.
    EXPECT_THAT(blocks[1].substr(serve),
                HasSubstr("--store=postgresql://payments_calls@db/app --maintenance_store="
                          "postgresql://payments_maintenance@db/app"));
  }
  // With the logins of the manual.
  std::unique_ptr<testing::DaemonProcess> Serve() {
    return std::make_unique<testing::DaemonProcess>(
        Url("payments_calls"),
        std::vector<std::string>{"--maintenance_store=" + Url("payments_maintenance"),
                                 "--sweep_interval=100ms"});
  }
  // Waits up to 30 s until `condition` is true.
  void Await(const std::string& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (true) {
      const auto found = RunSql(absl::StrCat("SELECT 1 / (", condition, ")::integer"));
      if (found) return;
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << condition;
    }
  }
  // Whether it succeeds.
  bool RunSql(const std::string& sql) {
    const auto psql = testing::Process::Start(
        {"/bin/sh", "-c", "exec psql --no-psqlrc --quiet --dbname=\"$1\" --command=\"$2\"", "sh",
         Url("dba"), sql});
    EXPECT_TRUE(psql.ok()) << psql.status();
    const auto ended = (*psql)->Wait();
    return ended.ok() && ended->code == 0;
  }

  std::unique_ptr<testing::PostgresCluster> cluster_;
};

// As docs/roles.md describes it for daemons that read a password only when they start.
TEST_F(LeastPrivilegeTest, ALoginIsReplacedByAnotherWhileReplicasServe) {
  PasteTheManual();
  auto former = Serve();
  const std::vector<std::string> blocks = CommandsOf("Passwords");
  ASSERT_EQ(blocks.size(), 3u);
  Paste(blocks[0]);
  testing::DaemonProcess next(Url("payments_calls_2"),
                              {"--maintenance_store=" + Url("payments_maintenance")});
  EXPECT_TRUE(testing::ServiceClient(former->address()).Call(testing::SomeReserve("one")).ok());
  const testing::ServiceClient client(next.address());
  EXPECT_TRUE(client.Call(testing::SomeGet("one")).ok());
  former.reset();
  Paste(blocks[1]);
  EXPECT_FALSE(RunSql("DROP ROLE payments_calls")) << "it is gone";
  EXPECT_TRUE(client.Call(testing::SomeReserve("two")).ok());
}

constexpr char kLongAgo[] =
    "UPDATE idempotency.records SET created_at = created_at - interval '40 days',"
    " lease_until = lease_until - interval '40 days',"
    " expires_at = expires_at - interval '40 days' WHERE key = ";

template <typename Request, typename Response>
absl::Status Administer(const std::string& address,
                        grpc::Status (v1::IdempotencyAdminService::Stub::*method)(
                            grpc::ClientContext*, const Request&, Response*),
                        const Request& request, Response* response) {
  const auto stub = v1::IdempotencyAdminService::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  return FromGrpcStatus(((*stub).*method)(&context, request, response));
}

TEST_F(LeastPrivilegeTest, EveryCallRunsWithTheLoginsOfTheManual) {
  PasteTheManual();
  // The roles survive a repetition, by the login that only deploys.
  Paste(CommandsOf("Roles")[1].substr(0, CommandsOf("Roles")[1].find("idempotencyd serve ")));
  const auto daemon = Serve();
  const testing::ServiceClient client(daemon->address());
  const auto token_of = [&client](const v1::ReserveRequest& request) {
    const auto reserved = client.Call(request);
    EXPECT_TRUE(reserved.ok() && reserved->has_reserved()) << reserved.status();
    return reserved.ok() ? reserved->reserved().reservation_token() : "";
  };
  // Completed and replayed; released and taken again; extended.
  const std::string done = token_of(testing::SomeReserve("done"));
  EXPECT_TRUE(client.Call(testing::SomeExtend("done", done)).ok());
  EXPECT_TRUE(client.Call(testing::SomeComplete("done", done, "body")).ok());
  EXPECT_TRUE(client.Call(testing::SomeReserve("done"))->has_replay());
  const std::string given_back = token_of(testing::SomeReserve("given-back"));
  EXPECT_TRUE(client.Call(testing::SomeRelease("given-back", given_back)).ok());
  token_of(testing::SomeReserve("given-back"));
  // Taken over, and forgotten but not yet swept: its row starts afresh.
  token_of(testing::SomeReserve("lost"));
  Sql("UPDATE idempotency.records SET lease_until = clock_timestamp() WHERE key = 'lost'");
  EXPECT_EQ(client.Call(testing::SomeReserve("lost"))->reserved().attempt(), 2u);
  token_of(testing::SomeReserve("stuck"));
  Sql("UPDATE idempotency.records SET expires_at = clock_timestamp(), lease_until ="
      " clock_timestamp() WHERE key = 'lost'");
  const auto afresh = client.Call(testing::SomeReserve("lost"));
  ASSERT_TRUE(afresh.ok()) << afresh.status();
  EXPECT_EQ(afresh->reserved().attempt(), 1u);
  // Swept with the other login.
  Sql(absl::StrCat(kLongAgo, "'done'"));
  Await("SELECT count(*) = 0 FROM idempotency.records WHERE key = 'done'");
  // Administered.
  v1::ResolveRequest resolve;
  *resolve.mutable_record_key() = testing::SomeRecordKey("stuck");
  resolve.set_outcome(v1::RESOLVE_OUTCOME_RELEASED);
  resolve.set_reason("looked at it");
  resolve.set_expected_attempt(1);
  resolve.set_force(true);
  v1::ResolveResponse resolved;
  EXPECT_TRUE(
      Administer(daemon->address(), &v1::IdempotencyAdminService::Stub::Resolve, resolve, &resolved)
          .ok());
  v1::PurgeRequest purge;
  *purge.mutable_record_key() = testing::SomeRecordKey("stuck");
  purge.set_reason("the tenant left");
  v1::PurgeResponse purged;
  EXPECT_TRUE(
      Administer(daemon->address(), &v1::IdempotencyAdminService::Stub::Purge, purge, &purged)
          .ok());
  EXPECT_EQ(purged.purged(), 1);
  v1::ListRequest list;
  list.set_namespace_(testing::SomeRecordKey("").namespace_());
  v1::ListResponse listed;
  EXPECT_TRUE(
      Administer(daemon->address(), &v1::IdempotencyAdminService::Stub::List, list, &listed).ok());
  EXPECT_EQ(listed.records_size(), 2);
  v1::ListAuditRequest audit;
  audit.set_namespace_(list.namespace_());
  v1::ListAuditResponse audited;
  EXPECT_TRUE(
      Administer(daemon->address(), &v1::IdempotencyAdminService::Stub::ListAudit, audit, &audited)
          .ok());
  EXPECT_EQ(audited.entries_size(), 2);
  // Each login has the sessions that it is for.
  Await(
      "SELECT count(*) BETWEEN 1 AND 2 FROM pg_stat_activity WHERE usename ="
      " 'payments_maintenance'");
  EXPECT_THAT(daemon->process().Stderr(), Not(HasSubstr("more rights than it needs")));
  EXPECT_THAT(daemon->process().Stderr(), Not(HasSubstr("statement failed")));
  EXPECT_EQ(daemon->Terminate().code, 0);
}

TEST_F(LeastPrivilegeTest, ALoginWithoutRightsIsNamedAndCallersReadNoSql) {
  PasteTheManual();
  const auto serve = [](const std::string& store, const std::string& maintenance) {
    std::vector<std::string> arguments = {"serve", "--store=" + store, "--listen=127.0.0.1:0",
                                          "--metrics="};
    if (!maintenance.empty()) arguments.push_back("--maintenance_store=" + maintenance);
    return RunDaemon(arguments);
  };
  const Result alone = serve(Url("payments_calls"), "");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("lacks privileges on schema idempotency: DELETE on checkpoints, "
                                   "DELETE on records"));
  EXPECT_THAT(alone.err, HasSubstr("GRANT idempotency_app, idempotency_sweeper TO payments_calls"));
  const Result swapped = serve(Url("payments_maintenance"), Url("payments_calls"));
  EXPECT_EQ(swapped.code, 2);
  EXPECT_THAT(swapped.err, HasSubstr("GRANT idempotency_app TO payments_maintenance"));
  Sql("CREATE ROLE stranger LOGIN");
  const Result stranger = serve(Url("stranger"), "");
  EXPECT_EQ(stranger.code, 2);
  EXPECT_THAT(stranger.err, HasSubstr("--create_roles"));
  // One that owns everything serves, with a warning.
  {
    testing::DaemonProcess daemon(Url("dba"));
    EXPECT_TRUE(testing::ServiceClient(daemon.address()).Call(testing::SomeReserve("a")).ok());
    EXPECT_THAT(daemon.process().Stderr(), HasSubstr("it is a superuser"));
  }
  // A right that is lost while it serves.
  const auto daemon = Serve();
  const testing::ServiceClient client(daemon->address());
  ASSERT_TRUE(client.Call(testing::SomeReserve("before")).ok());
  Sql("REVOKE INSERT ON idempotency.records FROM idempotency_app;"
      "REVOKE idempotency_admin FROM payments_maintenance");
  const absl::Status refused = client.Call(testing::SomeReserve("after")).status();
  EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable);
  v1::ListAuditRequest audit;
  audit.set_namespace_(testing::SomeRecordKey("").namespace_());
  v1::ListAuditResponse audited;
  const absl::Status unread =
      Administer(daemon->address(), &v1::IdempotencyAdminService::Stub::ListAudit, audit, &audited);
  EXPECT_EQ(ReasonOf(unread), Reason::kStoreUnavailable);
  for (const absl::Status& status : {refused, unread}) {
    for (const char* const leak : {"permission denied", "records", "audit_log", "payments_"}) {
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr(leak)));
    }
  }
  EXPECT_THAT(daemon->process().Stderr(), HasSubstr("lacks a privilege"));
}

}  // namespace
}  // namespace idempotency::internal
