// Records that are restored from a backup, by the steps of docs/restore.md, while the effects of
// what ran after the backup stay.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"

#include "grpc_idempotency/uuid.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/process.h"
#include "tests/support/programs.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

// The first block in `language` below a heading of the page.
std::string BlockBelow(const std::string& heading_text, const std::string& language) {
  std::ifstream file(IDEMPOTENCY_RESTORE_PAGE);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string opening = absl::StrCat("```", language, "\n");
  const std::size_t heading = page.find(absl::StrCat("## ", heading_text, "\n"));
  EXPECT_NE(heading, std::string::npos) << heading_text;
  const std::size_t begin = page.find(opening, heading) + opening.size();
  return page.substr(begin, page.find("```", begin) - begin);
}

void ExecuteOn(const std::string& file, const std::string& sql) {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database) << "\n"
      << sql;
  sqlite3_close(database);
}

// Runs commands in a folder, with the programs of this build.
void Paste(const std::string& folder, const std::string& commands) {
  const auto shell = Process::Start(
      {"/bin/sh", "-e", "-c",
       absl::StrCat(
           "cd ", folder, "\nsystemctl() { :; }\n",
           absl::StrReplaceAll(
               commands, {{"idempotencyd migrate",
                           absl::StrCat(ProgramPath("idempotencyd").value(), " migrate")},
                          {"idempotencyd check-config",
                           absl::StrCat(ProgramPath("idempotencyd").value(), " check-config")}}))});
  ASSERT_TRUE(shell.ok()) << shell.status();
  const auto ended = (*shell)->Wait();
  ASSERT_TRUE(ended.ok()) << ended.status();
  ASSERT_EQ(ended->code, 0) << commands << (*shell)->Stdout() << (*shell)->Stderr();
}

std::string Key(absl::Time made) { return Uuid::TimeOrdered(made).ToString(); }

class RestoreTest : public ::testing::Test {
 protected:
  void Serve(const std::string& store, std::vector<std::string> flags = {}) {
    daemon_ = std::make_unique<DaemonProcess>(store, std::move(flags));
    client_ = std::make_unique<ServiceClient>(daemon_->address());
  }
  void Stop() { EXPECT_EQ(daemon_->Terminate().code, 0); }

  v1::ReserveResponse Reserve(const std::string& key, v1::LeaseExpiry policy) {
    v1::ReserveRequest request = SomeReserve(key);
    request.set_on_lease_expiry(policy);
    const auto answer = client_->Call(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(v1::ReserveResponse());
  }
  void Release(const std::string& key, v1::LeaseExpiry policy) {
    const std::string token = Reserve(key, policy).reserved().reservation_token();
    EXPECT_TRUE(client_->Call(SomeRelease(key, token)).ok()) << key;
  }
  void Charge(const std::string& key, v1::LeaseExpiry policy) {
    const std::string token = Reserve(key, policy).reserved().reservation_token();
    EXPECT_TRUE(client_->Call(SomeComplete(key, token, "charged")).ok()) << key;
  }

  void BeforeTheBackup() {
    Release(released_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
    Release(repeatable_, v1::LEASE_EXPIRY_TAKE_OVER);
    Release(entombed_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
    Release(forgotten_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
    Charge(charged_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  }
  void AfterTheBackup() {
    Charge(released_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
    Charge(repeatable_, v1::LEASE_EXPIRY_TAKE_OVER);
    Charge(lost_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  }
  // With a line of an earlier restore.
  void Configure() {
    std::ofstream(folder_.File("config"))
        << "identities { name: \"machine\" local: true }\n"
        << "not_before: \"2020-01-01T00:00:00Z\"\n"
        << "rules { identity: \"machine\" namespaces: \"*\" permissions: WRITE }\n";
  }
  void ServeRestored(const std::string& store) {
    Serve(store, {absl::StrCat("--config=", folder_.File("config"))});
  }
  // The commands that set not_before.
  std::string NotBefore() const {
    return absl::StrReplaceAll(BlockBelow("SQLite", "sh"),
                               {{"\n   ", "\n"},
                                {"config=/etc/idempotency/idempotencyd.textproto",
                                 absl::StrCat("config=", folder_.File("config"))}});
  }
  void ExpectNothingRunsTwice() {
    EXPECT_TRUE(Reserve(lost_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY).has_expired());
    EXPECT_TRUE(Reserve(charged_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY).has_replay());
    EXPECT_TRUE(Reserve(released_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY).has_outcome_unknown());
    v1::ReserveRequest recovery = SomeReserve(released_);
    recovery.set_on_lease_expiry(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
    recovery.set_recover(true);
    const auto recovering = client_->Call(recovery);
    ASSERT_TRUE(recovering.ok()) << recovering.status();
    EXPECT_TRUE(recovering->reserved().recovering());
    // As the page says of TAKE_OVER.
    EXPECT_EQ(Reserve(repeatable_, v1::LEASE_EXPIRY_TAKE_OVER).reserved().attempt(), 2u);
    // Not UNKNOWN for ever.
    EXPECT_TRUE(Reserve(entombed_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY).has_expired());
    EXPECT_TRUE(Reserve(forgotten_, v1::LEASE_EXPIRY_REQUIRE_RECOVERY).has_expired());
  }

  const std::string charged_ = Key(absl::Now() - absl::Minutes(5));
  const std::string released_ = Key(absl::Now() - absl::Minutes(4));
  const std::string repeatable_ = Key(absl::Now() - absl::Minutes(3));
  const std::string entombed_ = Key(absl::Now() - absl::Minutes(2));
  const std::string forgotten_ = Key(absl::Now() - absl::Minutes(1));
  const std::string lost_ = Key(absl::Now());
  TempFolder folder_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::unique_ptr<ServiceClient> client_;
};

TEST_F(RestoreTest, OnPostgres) {
  const auto cluster = PostgresCluster::Create().value();
  ExecuteSql(cluster->url(), "CREATE ROLE dba LOGIN SUPERUSER");
  ExecuteSql(cluster->url(), "CREATE DATABASE idempotency");
  const std::string parameters = cluster->url().substr(cluster->url().find('?'));
  const std::string store = absl::StrCat("postgresql://dba@/idempotency", parameters);
  MigrateStore(store);
  Serve(store);
  BeforeTheBackup();
  Stop();
  ExecuteSql(store, absl::StrCat("UPDATE idempotency.records SET fingerprints = '',"
                                 " tombstone_until = now() + interval '1 day',"
                                 " expires_at = now(), lease_until = now() WHERE key = '",
                                 entombed_, "'"));
  ExecuteSql(store,
             absl::StrCat("UPDATE idempotency.records SET expires_at = now(), lease_until = now()"
                          " WHERE key = '",
                          forgotten_, "'"));
  Paste(folder_.path(),
        absl::StrCat("pg_dump --format=custom --file=backup --dbname='", store, "'"));
  Serve(store);
  AfterTheBackup();
  Stop();

  Configure();
  std::ofstream(folder_.File("released.sql")) << BlockBelow("Released records", "sql");
  Paste(folder_.path(),
        absl::StrCat(
            "export PGHOST=",
            absl::StrReplaceAll(parameters.substr(parameters.find('=') + 1), {{"%2F", "/"}}), "\n",
            absl::StrReplaceAll(
                BlockBelow("Postgres: systemd", "sh"),
                {{"dba@db/", "dba@/"},
                 {"/var/backups/idempotency/records", "backup"},
                 {"/etc/idempotency/idempotencyd.textproto", folder_.File("config")}})));
  ServeRestored(store);
  ExpectNothingRunsTwice();
  Stop();
}

TEST_F(RestoreTest, OnSqlite) {
  const std::string file = folder_.File("records.db");
  const std::string backup = folder_.File("backup.db");
  const std::string now = "strftime('%s', 'now') * 1000000";
  Serve("sqlite:" + file);
  BeforeTheBackup();
  Stop();
  ExecuteOn(file, absl::StrCat("UPDATE records SET expires_at = ", now, ", lease_expires_at = ",
                               now, ", created_at = created_at - 60000000 WHERE key IN ('",
                               entombed_, "', '", forgotten_, "');"));
  ExecuteOn(file, absl::StrCat("UPDATE records SET fingerprints = x'', tombstone_until = ", now,
                               " + 86400000000 WHERE key = '", entombed_, "'"));
  Serve("sqlite:" + file);
  // While it runs.
  ExecuteOn(file, absl::StrCat("VACUUM INTO '", backup, "'"));
  AfterTheBackup();
  Stop();

  ExecuteOn(backup, BlockBelow("SQLite", "sql"));
  Configure();
  Paste(folder_.path(), NotBefore());
  ServeRestored("sqlite:" + backup);
  ExpectNothingRunsTwice();
  Stop();
}

}  // namespace
}  // namespace idempotency::internal::testing
