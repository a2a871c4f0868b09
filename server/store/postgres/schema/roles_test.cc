#include "server/store/postgres/schema/roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/schema/access.h"
#include "server/store/postgres/schema/migrator.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kTables[] = {"records",   "checkpoints", "commit_probe",
                                   "audit_log", "audit_key",   "schema_migrations"};
constexpr const char* kPrivileges[] = {"SELECT",   "INSERT",     "UPDATE", "DELETE",
                                       "TRUNCATE", "REFERENCES", "TRIGGER"};

// Written out again, so that a slip in the roles' own lists is found.
const std::map<std::string, std::map<std::string, std::string>>& Expected() {
  static const std::map<std::string, std::map<std::string, std::string>> expected = {
      {"app",
       {{"records", "SELECT INSERT UPDATE"},
        {"checkpoints", "SELECT INSERT UPDATE"},
        {"commit_probe", "SELECT INSERT UPDATE"},
        {"audit_log", ""},
        {"audit_key", ""},
        {"schema_migrations", "SELECT"}}},
      {"sweeper",
       {{"records", "SELECT UPDATE DELETE"},
        {"checkpoints", "SELECT DELETE"},
        {"commit_probe", ""},
        {"audit_log", ""},
        {"audit_key", ""},
        {"schema_migrations", "SELECT"}}},
      {"admin",
       {{"records", "SELECT UPDATE DELETE"},
        {"checkpoints", "SELECT UPDATE DELETE"},
        {"commit_probe", ""},
        {"audit_log", "SELECT INSERT"},
        {"audit_key", "SELECT"},
        {"schema_migrations", "SELECT"}}},
      {"reader",
       {{"records", "SELECT"},
        {"checkpoints", ""},
        {"commit_probe", ""},
        {"audit_log", "SELECT"},
        {"audit_key", ""},
        {"schema_migrations", "SELECT"}}},
  };
  return expected;
}

// A statement that needs the privilege, changes nothing, and no other privilege.
std::string Needing(const std::string& table, const std::string& privilege) {
  if (privilege == "SELECT") return absl::StrCat("SELECT FROM ", table, " LIMIT 0");
  if (privilege == "DELETE") return absl::StrCat("DELETE FROM ", table, " WHERE false");
  if (privilege == "TRUNCATE") return absl::StrCat("TRUNCATE ", table);
  const std::string column = table == "records" || table == "checkpoints" ? "id"
                             : table == "commit_probe"                    ? "written_at"
                             : table == "audit_log"                       ? "actor"
                             : table == "audit_key"                       ? "key"
                                                                          : "version";
  if (privilege == "INSERT") {
    return absl::StrCat("INSERT INTO ", table, " (", column, ") SELECT NULL WHERE false");
  }
  return absl::StrCat("UPDATE ", table, " SET ", column, " = NULL WHERE false");
}

class PostgresRolesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl());
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    prefix_ = schema_->options().schema;
    MakeRoles();
  }
  void TearDown() override {
    std::vector<std::string> names = PostgresRoleNames(prefix_);
    names.insert(names.end(), logins_.begin(), logins_.end());
    const std::string all = absl::StrJoin(names, ", ");
    Execute("RESET ROLE");
    Execute(absl::StrCat("DROP OWNED BY ", all, " CASCADE; DROP ROLE ", all));
  }

  void MakeRoles() {
    const absl::Status made = PostgresMigrator(schema_->options()).CreateRoles(prefix_);
    ASSERT_TRUE(made.ok()) << made;
  }
  void Execute(const std::string& sql) {
    const auto done = schema_->Execute(sql);
    ASSERT_TRUE(done.ok()) << sql << done.status();
  }
  std::string Role(const std::string& suffix) { return absl::StrCat(prefix_, "_", suffix); }
  // A URL of a new login that is a member of these roles.
  std::string Login(const std::string& name, const std::vector<std::string>& suffixes,
                    const std::string& rights = "") {
    const std::string login = Role(name);
    Execute(absl::StrCat("CREATE ROLE ", login, " LOGIN ", rights));
    logins_.push_back(login);
    for (const std::string& suffix : suffixes) {
      Execute(absl::StrCat("GRANT ", Role(suffix), " TO ", login));
    }
    return absl::StrCat(schema_->options().url, "&user=", login);
  }
  PostgresOptions With(const std::string& url, const std::string& maintenance = "") {
    PostgresOptions options = schema_->options();
    options.url = url;
    options.maintenance_url = maintenance;
    return options;
  }
  // The result, and the log of it.
  std::pair<absl::Status, std::string> Check(const PostgresOptions& options) {
    ::testing::internal::CaptureStdout();
    const absl::Status checked = CheckPostgresAccess(options);
    return {checked, ::testing::internal::GetCapturedStdout()};
  }
  void ExpectRights() {
    for (const auto& [suffix, tables] : Expected()) {
      for (const auto& [table, privileges] : tables) {
        for (const std::string privilege : kPrivileges) {
          const std::string what = absl::StrCat(suffix, " ", privilege, " ", table);
          const bool may = absl::StrContains(privileges, privilege);
          EXPECT_EQ(schema_->Value(absl::StrCat("SELECT has_table_privilege('", Role(suffix),
                                                "', '", table, "', '", privilege, "')")),
                    may ? "t" : "f")
              << what;
          if (privilege == "REFERENCES" || privilege == "TRIGGER") continue;
          Execute(absl::StrCat("SET ROLE ", Role(suffix)));
          const auto done = schema_->Execute(Needing(table, privilege));
          EXPECT_EQ(done.ok(), may) << what << done.status();
          if (!may) EXPECT_THAT(std::string(done.status().message()), HasSubstr("42501")) << what;
          Execute("RESET ROLE");
        }
      }
    }
  }

  std::unique_ptr<testing::PostgresSchema> schema_;
  std::string prefix_;
  std::vector<std::string> logins_;
};

TEST_F(PostgresRolesTest, EachHasWhatItNeedsAndNoMore) {
  ExpectRights();
  EXPECT_EQ(
      schema_->Value(absl::StrCat("SELECT count(*) FROM pg_class c WHERE relnamespace = '", prefix_,
                                  "'::regnamespace AND relkind = 'r' AND relname NOT IN ('",
                                  absl::StrJoin(kTables, "', '"), "')")),
      "0")
      << "the matrix has every table";
  for (const std::string& name : PostgresRoleNames(prefix_)) {
    EXPECT_EQ(schema_->Value(absl::StrCat(
                  "SELECT rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication"
                  " OR rolbypassrls FROM pg_roles WHERE rolname = '",
                  name, "'")),
              "f")
        << name;
  }
  // Nothing in the schema belongs to another role.
  EXPECT_EQ(schema_->Value(absl::StrCat(
                "SELECT count(*) FROM (SELECT relowner FROM pg_class WHERE relnamespace = '",
                prefix_, "'::regnamespace UNION ALL SELECT proowner FROM pg_proc WHERE",
                " pronamespace = '", prefix_, "'::regnamespace UNION ALL SELECT nspowner",
                " FROM pg_namespace WHERE nspname = '", prefix_, "') o(owner) WHERE owner <> '",
                Role("owner"), "'::regrole")),
            "0");
}

TEST_F(PostgresRolesTest, ARepetitionRestoresWhatAHandChanged) {
  Execute(absl::StrCat("GRANT ALL ON records, audit_log TO ", Role("app"), ", ", Role("reader"),
                       "; GRANT UPDATE (reason) ON audit_log TO ", Role("admin"),
                       "; REVOKE ALL ON checkpoints FROM ", Role("app")));
  MakeRoles();
  ExpectRights();
  EXPECT_EQ(schema_->Value(absl::StrCat("SELECT has_column_privilege('", Role("admin"),
                                        "', 'audit_log', 'reason', 'UPDATE')")),
            "f");
}

// Roles are of the whole server, and a migration excludes those of its own schema alone.
TEST_F(PostgresRolesTest, RolesThatAnotherMigrationMakesAtTheSameTimeAreUsed) {
  const auto create_at_once = [this](const std::string& prefix, bool before_the_look) {
    const auto other = testing::PostgresSchema::Create(schema_->options().url).value();
    std::string create;
    for (const std::string& name : PostgresRoleNames(prefix)) {
      absl::StrAppend(&create, "CREATE ROLE ", name, " NOLOGIN;");
      logins_.push_back(name);
    }
    Execute(before_the_look ? "BEGIN;" + create : "BEGIN; LOCK TABLE pg_authid IN SHARE MODE");
    absl::Status made;
    std::thread makes([&] {
      pthread_setname_np(pthread_self(), "makes");
      made = PostgresMigrator(other->options()).CreateRoles(prefix);
    });
    while (schema_->Value("SELECT count(*) FROM pg_locks WHERE NOT granted"
                          " AND pg_backend_pid() = ANY (pg_blocking_pids(pid))") == "0") {
      std::this_thread::yield();
    }
    if (!before_the_look) Execute(create);
    Execute("COMMIT");
    makes.join();
    return made;
  };
  // Its row is in the way, then the role.
  for (const bool before_the_look : {true, false}) {
    const std::string prefix = absl::StrCat(prefix_, "_", before_the_look ? "a" : "b");
    const absl::Status made = create_at_once(prefix, before_the_look);
    EXPECT_TRUE(made.ok()) << made;
  }
}

TEST_F(PostgresRolesTest, AMigrationOfALoginLeavesNewTablesToTheOwner) {
  // One that may do no more than be a member.
  const std::string url = Login("deployer", {"owner"});
  PostgresMigrator as_deployer(With(url));
  ASSERT_TRUE(PostgresMigrator(schema_->options()).Down(3).ok());
  const auto applied = as_deployer.Up();
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(schema_->Value("SELECT string_agg(DISTINCT tableowner, ',') FROM pg_tables"
                           " WHERE schemaname = current_schema"),
            Role("owner"));
  const absl::Status made = as_deployer.CreateRoles(prefix_);
  ASSERT_TRUE(made.ok()) << made;
  ExpectRights();
}

TEST_F(PostgresRolesTest, ALoginThatMayNotMakeRolesIsToldWhatToDo) {
  const std::string url = Login("deployer", {"owner"});
  const absl::Status refused = PostgresMigrator(With(url)).CreateRoles("other_prefix");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("ALTER ROLE ", Role("deployer"), " CREATEROLE")));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("CREATE ROLE other_prefix_owner NOLOGIN;"));
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'other_prefix%'"),
            "0");
}

TEST_F(PostgresRolesTest, ALoginWithCreateroleMakesThemInASchemaOfItsOwn) {
  const std::string url = Login("deployer", {}, "CREATEROLE");
  Execute(absl::StrCat("GRANT CREATE ON DATABASE ",
                       schema_->Value("SELECT quote_ident(current_database())"), " TO ",
                       Role("deployer")));
  PostgresOptions options = With(url);
  options.schema = Role("second");
  PostgresMigrator migrator(options);
  ASSERT_TRUE(migrator.Up().ok());
  for (int i = 0; i < 2; ++i) {
    const absl::Status made = migrator.CreateRoles(options.schema);
    ASSERT_TRUE(made.ok()) << made;
  }
  EXPECT_EQ(schema_->Value(absl::StrCat("SELECT pg_get_userbyid(nspowner) FROM pg_namespace"
                                        " WHERE nspname = '",
                                        options.schema, "'")),
            options.schema + "_owner");
  for (const std::string& name : PostgresRoleNames(options.schema)) logins_.push_back(name);
}

TEST_F(PostgresRolesTest, ARoleOfTheNameWithRightsOfItsOwnIsRefused) {
  for (const char* const right : {"LOGIN", "SUPERUSER", "CREATEROLE", "BYPASSRLS", "REPLICATION"}) {
    Execute(absl::StrCat("ALTER ROLE ", Role("app"), " ", right));
    const absl::Status refused = PostgresMigrator(schema_->options()).CreateRoles(prefix_);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << right;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(Role("app") + " exists")) << right;
    Execute(absl::StrCat("ALTER ROLE ", Role("app"), " NO", right));
  }
  for (const std::string& prefix : {std::string("x\"; DROP"), std::string("Upper"),
                                    std::string("pg_x"), std::string(56, 'x')}) {
    EXPECT_EQ(PostgresMigrator(schema_->options()).CreateRoles(prefix).code(),
              absl::StatusCode::kInvalidArgument)
        << prefix;
  }
}

TEST_F(PostgresRolesTest, LoginsWithEnoughAndNoMoreServeWithoutAWarning) {
  const std::string calls = Login("calls", {"app"});
  const std::string sweeps = Login("sweeps", {"sweeper", "admin"});
  const std::string all = Login("all", {"app", "sweeper", "admin"});
  PostgresOptions reading = With(Login("reading", {"reader"}));
  reading.read_only = true;
  for (const PostgresOptions& options : {With(calls, sweeps), With(all), reading}) {
    const auto [checked, log] = Check(options);
    EXPECT_TRUE(checked.ok()) << checked;
    EXPECT_EQ(log, "");
  }
  const std::string sweeps_only = Login("sweeps_only", {"sweeper"});
  const auto [checked, log] = Check(With(calls, sweeps_only));
  EXPECT_TRUE(checked.ok()) << checked;
  EXPECT_THAT(log, HasSubstr(absl::StrCat("GRANT ", Role("admin"), " TO ", Role("sweeps_only"))));
}

TEST_F(PostgresRolesTest, UsageIsMeasuredByTheLoginForMaintenance) {
  const auto store =
      PostgresStore::Create(With(Login("calls", {"app"}), Login("sweeps", {"sweeper"}))).value();
  UsageOp op;
  op.name_space = "payments";
  const auto measured = store->MeasureUsage(op);
  EXPECT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(schema_->Value(absl::StrCat("SELECT string_agg(usename, ',') FROM pg_stat_activity"
                                        " WHERE usename LIKE '",
                                        prefix_, "%'")),
            Role("sweeps"));
}

TEST_F(PostgresRolesTest, ALoginThatLacksARightIsRefusedWithWhatToDo) {
  const std::string calls = Login("calls", {"app"});
  const std::string none = Login("none", {});
  Execute(absl::StrCat("GRANT USAGE ON SCHEMA ", prefix_, " TO ", Role("none")));
  struct Case {
    PostgresOptions options;
    std::string lacks;
    std::string remedy;
  };
  PostgresOptions reading = With(none);
  reading.read_only = true;
  const Case cases[] = {
      {With(calls), "DELETE on checkpoints, DELETE on records",
       absl::StrCat("GRANT ", Role("app"), ", ", Role("sweeper"), " TO ", Role("calls"))},
      {With(calls, calls), "DELETE on checkpoints, DELETE on records",
       absl::StrCat("GRANT ", Role("sweeper"), " TO ", Role("calls"))},
      {With(none, calls), "INSERT on records",
       absl::StrCat("GRANT ", Role("app"), " TO ", Role("none"))},
      {reading, "SELECT on records", absl::StrCat("GRANT ", Role("reader"), " TO ", Role("none"))},
  };
  for (const Case& c : cases) {
    const auto [refused, log] = Check(c.options);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << c.remedy;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(c.lacks));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(c.remedy));
  }
  // Not even the schema.
  Execute(absl::StrCat("REVOKE USAGE ON SCHEMA ", prefix_, " FROM ", Role("none")));
  const absl::Status refused = PostgresMigrator(With(none)).CheckSchema();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("migrate --create_roles"));
}

TEST_F(PostgresRolesTest, ALoginWithMoreThanItNeedsIsWarnedOf) {
  const std::string calls = Login("calls", {"app"});
  const std::string sweeps = Login("sweeps", {"sweeper", "admin"});
  const std::string remedy = absl::StrCat("a member of ", Role("app"), " alone");
  const auto warning = [&](const PostgresOptions& options) {
    const auto [checked, log] = Check(options);
    EXPECT_TRUE(checked.ok()) << checked;
    return log;
  };
  EXPECT_THAT(warning(With(schema_->options().url, sweeps)),
              ::testing::AllOf(HasSubstr("it is a superuser"), HasSubstr(remedy)));
  Execute(absl::StrCat("ALTER ROLE ", Role("calls"), " BYPASSRLS"));
  EXPECT_THAT(warning(With(calls, sweeps)), HasSubstr("it has BYPASSRLS"));
  Execute(absl::StrCat("ALTER ROLE ", Role("calls"), " NOBYPASSRLS; GRANT ", Role("owner"), " TO ",
                       Role("calls")));
  EXPECT_THAT(warning(With(calls, sweeps)), HasSubstr("it owns the tables"));
  Execute(absl::StrCat("REVOKE ", Role("owner"), " FROM ", Role("calls"), "; GRANT ",
                       Role("sweeper"), " TO ", Role("calls")));
  EXPECT_THAT(warning(With(calls, sweeps)), HasSubstr("it may delete records"));
  EXPECT_THAT(warning(With(calls)), Not(HasSubstr("more rights than it needs")));
  Execute(absl::StrCat("REVOKE ", Role("sweeper"), " FROM ", Role("calls"),
                       "; GRANT UPDATE ON audit_log TO ", Role("sweeps")));
  EXPECT_THAT(warning(With(calls, sweeps)), ::testing::AllOf(HasSubstr("of --maintenance_store"),
                                                             HasSubstr("it may change audit_log")));
}

TEST_F(PostgresRolesTest, ALogOfParametersIsWarnedOf) {
  const std::string calls = Login("calls", {"app", "sweeper", "admin"});
  const auto set = [&](const char* setting) {
    Execute(absl::StrCat("ALTER ROLE ", Role("calls"), " SET ", setting));
  };
  const auto warning = [&] { return Check(With(calls)).second; };
  EXPECT_THAT(warning(), Not(HasSubstr("logs parameters")));
  set("log_min_duration_statement = '1min'");
  EXPECT_THAT(warning(),
              ::testing::AllOf(HasSubstr("logs parameters of the statements of --store"),
                               HasSubstr(absl::StrCat("ALTER ROLE ", Role("calls"),
                                                      " SET"
                                                      " log_parameter_max_length = 0"))));
  set("log_parameter_max_length = 0");
  EXPECT_THAT(warning(), Not(HasSubstr("logs parameters")));
  set("log_parameter_max_length = -1");
  set("log_min_duration_statement = -1");
  set("log_statement = 'mod'");
  EXPECT_THAT(warning(), HasSubstr("logs parameters"));
}

// The bound on sessions that wait for a standby counts those of the login.
TEST_F(PostgresRolesTest, ALoginThatDoesNotSeeItsSessionsIsRefusedOrWarnedOf) {
  const std::string calls = Login("calls", {"app", "owner"});
  const std::string sweeps = Login("sweeps", {"sweeper", "owner"});
  const auto set = [&](const std::string& login, const std::string& setting) {
    Execute(absl::StrCat("ALTER ROLE ", Role(login), " ", setting));
  };
  const auto expect_refused = [&](const PostgresOptions& options, const std::string& flag) {
    const auto [refused, log] = Check(options);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(absl::StrCat(flag, " acts as the role ", Role("owner"))));
  };
  EXPECT_TRUE(Check(With(calls, sweeps)).first.ok());
  expect_refused(With(calls + "&options=-crole%3D" + Role("owner"), sweeps), "--store");
  set("sweeps", absl::StrCat("SET role = ", Role("owner")));
  expect_refused(With(calls, sweeps), "--maintenance_store");
  set("sweeps", "RESET role");
  set("calls", "SET track_activities = off");
  const auto [checked, log] = Check(With(calls, sweeps));
  EXPECT_TRUE(checked.ok()) << checked;
  EXPECT_THAT(log, HasSubstr("track_activities is off for --store"));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("ALTER ROLE ", Role("calls"), " SET track_activities")));
}

TEST_F(PostgresRolesTest, TheLoginForMaintenanceLeadsToTheSameSchema) {
  const auto other = testing::PostgresSchema::Create(testing::TestPostgresUrl()).value();
  const std::string calls = Login("calls", {"app"});
  const std::string sweeps = Login("sweeps", {"sweeper"});
  EXPECT_TRUE(Check(With(calls, sweeps + "&options=-csearch_path%3D" + prefix_)).first.ok());
  const auto expect_refused = [&](const std::string& maintenance) {
    const absl::Status refused = Check(With(calls, maintenance)).first;
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("leads to another schema"));
  };
  expect_refused(sweeps + "&options=-csearch_path%3D" + other->options().schema);
  // A copy of the database on the same server.
  const auto cluster = testing::PostgresCluster::Create().value();
  const std::string original = cluster->NewDatabase();
  PostgresOptions options;
  options.url = original;
  ASSERT_TRUE(PostgresMigrator(options).Up().ok());
  const std::string name = original.substr(original.rfind('@') + 2);
  testing::ExecuteSql(cluster->url(), absl::StrCat("CREATE DATABASE copy TEMPLATE ",
                                                   name.substr(0, name.find('?'))));
  options.maintenance_url = absl::StrCat(cluster->url(), "&dbname=copy");
  EXPECT_THAT(std::string(Check(options).first.message()), HasSubstr("leads to another schema"));
  // A copy of the server: a backup that was restored.
  const auto copy = testing::PostgresCluster::CreateStandby(*cluster).value();
  copy->Promote();
  options.maintenance_url = absl::StrCat(copy->url(), "&dbname=", name.substr(0, name.find('?')));
  EXPECT_THAT(std::string(Check(options).first.message()), HasSubstr("leads to another schema"));
  options.maintenance_url = options.url;
  EXPECT_TRUE(Check(options).first.ok());
}

TEST(DurabilityWarningsTest, AreOfWhatLosesCommits) {
  PostgresDurability durability;
  EXPECT_THAT(DurabilityWarnings(durability), IsEmpty()) << "one server";
  durability.fails_over = true;
  EXPECT_THAT(DurabilityWarnings(durability),
              ElementsAre(HasSubstr("synchronous_standby_names is empty")));
  durability.waits_for_standby = true;
  EXPECT_THAT(DurabilityWarnings(durability), IsEmpty());
  durability.full_page_writes = false;
  EXPECT_THAT(DurabilityWarnings(durability), ElementsAre(HasSubstr("full_page_writes is off")));
  durability.fsync = false;
  EXPECT_THAT(DurabilityWarnings(durability),
              ElementsAre(HasSubstr("Set fsync to on"), HasSubstr("Set full_page_writes to on")));
}

// A server of its own, with the schema.
class PostgresDurabilityTest : public ::testing::Test {
 protected:
  void Start(const testing::PostgresClusterOptions& settings) {
    cluster_ = testing::PostgresCluster::Create(settings).value();
    options_.url = cluster_->url();
    ASSERT_TRUE(PostgresMigrator(options_).Up().ok());
    // It leads to the same server, and adds no line.
    options_.maintenance_url = options_.url;
  }
  // The warnings that the check logs of the server.
  std::vector<std::string> Warnings() {
    ::testing::internal::CaptureStdout();
    const absl::Status checked = CheckPostgresAccess(options_);
    const std::string log = ::testing::internal::GetCapturedStdout();
    EXPECT_TRUE(checked.ok()) << checked;
    std::vector<std::string> warnings;
    for (const absl::string_view line : absl::StrSplit(log, '\n')) {
      if (absl::StrContains(line, "the server of --store: ")) warnings.emplace_back(line);
    }
    return warnings;
  }

  std::unique_ptr<testing::PostgresCluster> cluster_;
  PostgresOptions options_;
};

TEST_F(PostgresDurabilityTest, AServerThatMayLoseCommitsIsWarnedOfOnce) {
  Start({/*fsync=*/false, {"full_page_writes=off"}});
  EXPECT_THAT(Warnings(),
              ElementsAre(HasSubstr("fsync is off"), HasSubstr("full_page_writes is off")));
  // It records nothing.
  options_.read_only = true;
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(PostgresDurabilityTest, SeveralServersWithoutASynchronousStandbyAreWarnedOf) {
  Start({});
  EXPECT_THAT(Warnings(), IsEmpty()) << "one server with the defaults";
  // The server in the list twice.
  absl::StrAppend(&options_.url, ",", options_.url.substr(options_.url.find("%2F")));
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr("synchronous_standby_names is empty")));
  testing::ExecuteSql(cluster_->url(), "ALTER SYSTEM SET synchronous_standby_names TO 'nobody'");
  ASSERT_TRUE(cluster_->Restart().ok());
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST(TransportWarningTest, IsOfWhatOthersCanReadOrReplace) {
  EXPECT_THAT(TransportWarning({false, false, false}), HasSubstr("is not encrypted"));
  EXPECT_THAT(TransportWarning({false, false, true}), HasSubstr("is not encrypted"));
  EXPECT_THAT(TransportWarning({false, true, false}), HasSubstr("does not verify the server"));
  EXPECT_EQ(TransportWarning({false, true, true}), "");
  EXPECT_EQ(TransportWarning({true, false, false}), "");
}

}  // namespace
}  // namespace idempotency::internal
