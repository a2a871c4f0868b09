#include "tests/support/postgres_cluster.h"

#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "postgres/socket_watchdog.h"
#include "server/store/postgres/connection/connection.h"

namespace idempotency::internal::testing {
namespace {

// A recovery after a crash is the slowest start.
constexpr Process::Seconds kStartLimit(60);

// The folder of the server's programs on Debian: the newest version's.
absl::StatusOr<std::string> BinaryFolderOfPostgres() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", ignored)) {
    const std::filesystem::path folder = version.path() / "bin";
    if (std::filesystem::exists(folder / "initdb")) found.push_back(folder.string());
  }
  if (found.empty()) {
    return absl::NotFoundError("no Postgres server under /usr/lib/postgresql: install postgresql");
  }
  return *std::max_element(found.begin(), found.end());
}

// initdb and the server refuse to run as root.
absl::StatusOr<std::vector<std::string>> AsServerUser(const std::string& folder) {
  if (geteuid() != 0) return std::vector<std::string>();
  const passwd* const user = getpwnam("postgres");
  if (user == nullptr) return absl::NotFoundError("running as root, and there is no user postgres");
  if (chown(folder.c_str(), user->pw_uid, user->pw_gid) != 0) {
    return absl::InternalError("cannot give the cluster's folder to the user postgres");
  }
  return std::vector<std::string>{"/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres",
                                  "--init-groups"};
}

absl::Status RunAsServerUser(const std::string& folder, const std::vector<std::string>& command) {
  auto as_user = AsServerUser(folder);
  if (!as_user.ok()) return as_user.status();
  as_user->insert(as_user->end(), command.begin(), command.end());
  auto process = Process::Start(*as_user);
  if (!process.ok()) return process.status();
  const auto ended = (*process)->Wait(kStartLimit);
  if (!ended.ok()) return ended.status();
  if (ended->code != 0) return absl::InternalError((*process)->Stderr());
  return absl::OkStatus();
}

// The files of a server that has never run.
class EmptyCluster {
 public:
  EmptyCluster() : status_(Make()) {}

  const absl::Status& status() const { return status_; }
  std::string data() const { return folder_.File("data"); }

 private:
  absl::Status Make() {
    const auto binaries = BinaryFolderOfPostgres();
    if (!binaries.ok()) return binaries.status();
    return RunAsServerUser(folder_.path(), {absl::StrCat(*binaries, "/initdb"), "--pgdata", data(),
                                            "--username=postgres", "--auth=trust",
                                            "--encoding=UTF8", "--locale=C", "--no-sync"});
  }

  const TempFolder folder_;
  const absl::Status status_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresCluster>> PostgresCluster::Create(
    const PostgresClusterOptions& options) {
  std::unique_ptr<PostgresCluster> cluster(new PostgresCluster(options));  // private constructor
  if (absl::Status status = cluster->Init(); !status.ok()) return status;
  if (absl::Status status = cluster->Start(); !status.ok()) return status;
  return cluster;
}

absl::StatusOr<std::unique_ptr<PostgresCluster>> PostgresCluster::CreateStandby(
    const PostgresCluster& primary) {
  std::unique_ptr<PostgresCluster> standby(
      new PostgresCluster(primary.options_));  // private constructor
  if (absl::Status status = standby->CopyFrom(primary); !status.ok()) return status;
  if (absl::Status status = standby->Start(); !status.ok()) return status;
  return standby;
}

PostgresCluster& PostgresCluster::Shared() {
  static const std::unique_ptr<PostgresCluster> shared = [] {
    auto created = Create({/*fsync=*/true});
    if (!created.ok()) {
      std::fprintf(stderr, "no Postgres: %s\n", created.status().ToString().c_str());
      std::abort();
    }
    return *std::move(created);
  }();
  return *shared;
}

PostgresCluster::~PostgresCluster() { StopImmediate().IgnoreError(); }

absl::Status PostgresCluster::Make(std::vector<std::string> command) {
  auto binaries = BinaryFolderOfPostgres();
  if (!binaries.ok()) return binaries.status();
  command.front() = absl::StrCat(*binaries, "/", command.front());
  return RunAsServerUser(folder_.path(), command);
}

absl::Status PostgresCluster::Init() {
  // initdb takes several times as long as copying its result.
  static const EmptyCluster empty;
  if (!empty.status().ok()) return empty.status();
  return RunAsServerUser(folder_.path(),
                         {"/bin/cp", "--archive", empty.data(), folder_.File("data")});
}

absl::Status PostgresCluster::CopyFrom(const PostgresCluster& primary) {
  is_standby_ = true;
  return Make({"pg_basebackup", "--pgdata", folder_.File("data"), "--host", primary.folder_.path(),
               "--username=postgres", "--checkpoint=fast", "--write-recovery-conf", "--no-sync"});
}

absl::Status PostgresCluster::Start() {
  auto binaries = BinaryFolderOfPostgres();
  if (!binaries.ok()) return binaries.status();
  auto as_user = AsServerUser(folder_.path());
  if (!as_user.ok()) return as_user.status();
  // The server logs to stderr; the expected lines are read from stdout.
  std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
  command.insert(command.end(), as_user->begin(), as_user->end());
  command.insert(
      command.end(),
      {absl::StrCat(*binaries, "/postgres"), "-D", folder_.File("data"), "-k", folder_.path(), "-c",
       "listen_addresses=", "-c", "max_connections=200", "-c", "log_line_prefix=", "-c",
       "lc_messages=C", "-c", absl::StrCat("fsync=", options_.fsync ? "on" : "off")});
  for (const std::string& setting : options_.settings) {
    command.insert(command.end(), {"-c", setting});
  }
  auto process = Process::Start(command);
  if (!process.ok()) return process.status();
  server_ = *std::move(process);
  const std::string ready = absl::StrCat("LOG:  database system is ready to accept ",
                                         is_standby_ ? "read-only " : "", "connections");
  return server_->WaitForLine(ready, kStartLimit).status();
}

absl::Status PostgresCluster::StopWith(int signal) {
  if (server_ == nullptr) return absl::OkStatus();
  server_->Signal(signal);
  const absl::Status ended = server_->Wait(kStartLimit).status();
  server_.reset();
  return ended;
}

absl::Status PostgresCluster::Stop() { return StopWith(SIGINT); }

absl::Status PostgresCluster::StopImmediate() { return StopWith(SIGQUIT); }

absl::Status PostgresCluster::Restart() {
  if (absl::Status status = Stop(); !status.ok()) return status;
  return Start();
}

void PostgresCluster::Promote() {
  ExecuteSql(absl::StrCat(url(), "&target_session_attrs=any"), "SELECT pg_promote(true, 60)");
  is_standby_ = false;
}

std::string PostgresCluster::url() const {
  return absl::StrCat("postgresql://postgres@/postgres?host=",
                      absl::StrReplaceAll(folder_.path(), {{"/", "%2F"}}));
}

std::string PostgresCluster::NewDatabase() {
  const std::string name = absl::StrCat("database_", ++databases_);
  ExecuteSql(url(), absl::StrCat("CREATE DATABASE ", name));
  return absl::StrReplaceAll(url(), {{"@/postgres?", absl::StrCat("@/", name, "?")}});
}

void ExecuteSql(const std::string& url, const std::string& sql) {
  PostgresOptions options;
  options.url = url;
  SocketWatchdog watchdog;
  const auto connection = PostgresConnection::Open(options, watchdog);
  const absl::Status status =
      connection.ok() ? (*connection)->ExecuteScript(sql).status() : connection.status();
  if (status.ok()) return;
  std::fprintf(stderr, "SQL failed: %s\n", status.ToString().c_str());
  std::abort();
}

std::string TestPostgresUrl() {
  const char* const given = std::getenv("IDEMPOTENCY_TEST_POSTGRES");
  if (given != nullptr && *given != '\0') return given;
  return PostgresCluster::Shared().url();
}

}  // namespace idempotency::internal::testing
