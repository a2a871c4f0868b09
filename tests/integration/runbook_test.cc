// The SQL of docs/runbook.md, against the schema that it is for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

#include "grpc_idempotency/uuid.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"
#include "tests/support/process.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// The first SQL of an alert's entry that contains `word`.
std::string SqlOf(const std::string& alert, const std::string& word) {
  std::ifstream file(IDEMPOTENCY_RUNBOOK);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string fence = "```sql\n";
  std::size_t begin = page.find("\n## " + alert + "\n");
  const std::size_t end_of_entry = page.find("\n## ", begin + 1);
  while ((begin = page.find(fence, begin)) < end_of_entry) {
    begin += fence.size();
    const std::string sql = page.substr(begin, page.find("```", begin) - begin);
    if (sql.find(word) != std::string::npos) return sql;
  }
  ADD_FAILURE() << "no SQL with " << word << " for " << alert;
  return "";
}

TEST(RunbookTest, NamesTheSessionThatHoldsTheSweepAndNoServingOne) {
  const auto schema = PostgresSchema::Create(TestPostgresUrl()).value();
  const std::string name = schema->Value("SELECT current_schema");
  std::string sql = SqlOf("IdempotencySweepStalled", "pg_locks");
  sql.replace(sql.find("'idempotency'"), std::string("'idempotency'").size(), "'" + name + "'");
  const auto none = schema->Execute(sql);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->rows(), 0);

  for (const std::string lock : {"serve", "sweep"}) {
    ASSERT_TRUE(schema
                    ->Execute("SELECT pg_advisory_lock(hashtextextended('idempotency " + lock +
                              " ' || current_schema, 0))")
                    .ok());
    const auto holders = schema->Execute(sql);
    ASSERT_TRUE(holders.ok()) << holders.status();
    ASSERT_EQ(holders->rows(), lock == "sweep" ? 1 : 0);
  }
  EXPECT_EQ(schema->Value(sql), schema->Value("SELECT pg_backend_pid()"));
}

// One UNKNOWN record of "orders", two of "payments", and for each a live reservation.
void AddRecords(const std::string& address) {
  const ServiceClient client(address);
  for (const std::string key : {"orders-1", "payments-1", "payments-2"}) {
    v1::RecordKey record = SomeRecordKey(key);
    record.set_namespace_(key.substr(0, key.find('-')));
    v1::ReserveRequest reserve = SomeReserve(key);
    *reserve.mutable_record_key() = record;
    const auto reserved = client.Call(reserve);
    ASSERT_TRUE(reserved.ok()) << reserved.status();
    v1::ReleaseRequest release = SomeRelease(key, reserved->reserved().reservation_token());
    *release.mutable_record_key() = record;
    release.set_outcome(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
    const auto released = client.Call(release);
    ASSERT_TRUE(released.ok()) << released.status();
    reserve.mutable_record_key()->set_scope("another");
    ASSERT_TRUE(client.Call(reserve).ok());
  }
}

using Rows = std::vector<std::vector<std::string>>;

// The output of psql, a list of fields for each line.
Rows InPostgres(const std::string& url, const std::string& sql) {
  const std::string command =
      "exec psql --no-psqlrc --quiet --tuples-only --no-align --dbname=\"$1\" --command=\"$2\"";
  const auto psql = Process::Start({"/bin/sh", "-c", command, "sh", url, sql});
  EXPECT_TRUE(psql.ok()) << psql.status();
  const auto ended = (*psql)->Wait();
  EXPECT_TRUE(ended.ok() && ended->code == 0) << (*psql)->Stderr();
  Rows rows;
  for (const absl::string_view line : absl::StrSplit((*psql)->Stdout(), '\n', absl::SkipEmpty())) {
    rows.push_back(absl::StrSplit(line, '|'));
  }
  return rows;
}

Rows InSqlite(const std::string& file, const std::string& sql) {
  sqlite3* opened = nullptr;
  EXPECT_EQ(sqlite3_open_v2(file.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> database(opened, &sqlite3_close);
  Rows rows;
  const auto add = [](void* into, int columns, char** values, char** /*names*/) {
    std::vector<std::string>& row = static_cast<Rows*>(into)->emplace_back();
    for (int i = 0; i < columns; ++i) row.emplace_back(values[i] == nullptr ? "" : values[i]);
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(database.get(), sql.c_str(), add, &rows, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database.get());
  return rows;
}

// In a time zone of its own, or UTC.
void ExpectTimes(const Rows& rows) {
  for (const std::vector<std::string>& row : rows) {
    EXPECT_THAT(row.back(), ::testing::MatchesRegex("20..-..-.. ..:..:...*"));
  }
}

TEST(RunbookTest, CountsOpenCasesByNamespaceInPostgres) {
  const std::string url = PostgresCluster::Shared().NewDatabase();
  MigrateStore(url);
  const DaemonProcess daemon(url);
  AddRecords(daemon.address());
  const Rows unknown = InPostgres(url, SqlOf("IdempotencyOutcomesUnknown", "idempotency.records"));
  EXPECT_THAT(unknown, ElementsAre(ElementsAre("payments", "2", _), ElementsAre("orders", "1", _)));
  ExpectTimes(unknown);

  const std::string old = SqlOf("IdempotencyReservationOld", "idempotency.records");
  EXPECT_TRUE(InPostgres(url, old).empty()) << "none is open for long";
  // As the sweep marks them after a minute.
  InPostgres(url, "UPDATE idempotency.records SET open_for_long = true WHERE state = 1");
  const Rows reserved = InPostgres(url, old);
  EXPECT_THAT(reserved,
              UnorderedElementsAre(ElementsAre("payments", "2", _), ElementsAre("orders", "1", _)));
  ExpectTimes(reserved);
}

// With the key in the place of the example's.
std::string SqlOfKey(const std::string& word, const std::string& key) {
  std::string sql = SqlOf("Charged twice", word);
  const std::size_t example = sql.find("lower('") + std::string("lower('").size();
  return sql.replace(example, sql.find('\'', example) - example, key);
}

TEST(RunbookTest, FindsTheRecordsOfAKeyByTheKeyAlone) {
  const std::string url = PostgresCluster::Shared().NewDatabase();
  MigrateStore(url);
  const DaemonProcess daemon(url);
  const ServiceClient client(daemon.address());
  const std::string key = Uuid::TimeOrdered(absl::Now()).ToString();
  std::vector<std::string> ids;
  for (const std::string scope : {"one", "two"}) {
    v1::ReserveRequest reserve = SomeReserve(key);
    reserve.mutable_record_key()->set_scope(scope);
    const auto reserved = client.Call(reserve);
    ASSERT_TRUE(reserved.ok()) << reserved.status();
    ids.push_back(reserved->record_id());
  }
  // Of the same millisecond.
  const std::string neighbour = key.substr(0, 14) + "7fff-bfff-ffffffffffff";
  ASSERT_TRUE(client.Call(SomeReserve(neighbour)).ok());
  const std::string upper = absl::AsciiStrToUpper(key);
  const std::string records = SqlOfKey("idempotency.records", upper);
  const Rows found = InPostgres(url, records);
  EXPECT_THAT(found, UnorderedElementsAre(Contains(ids[0]), Contains(ids[1])));
  const absl::Time made = Uuid::Parse(key)->TimeOrderedAt().value();
  EXPECT_THAT(InPostgres(url,
                         "SELECT DISTINCT round(extract(epoch FROM r.made_at) * 1000)::bigint"
                         " FROM (" +
                             records.substr(0, records.find(';')) + ") AS r"),
              ElementsAre(ElementsAre(absl::StrCat(absl::ToUnixMillis(made)))));

  const std::string audit = SqlOfKey("idempotency.audit_log", upper);
  EXPECT_TRUE(InPostgres(url, audit).empty());
  InPostgres(url,
             "INSERT INTO idempotency.audit_log (at, actor, reason, action, forced, namespace,"
             " record_id, key_hmac, state, attempt) SELECT now(), 'a', 'r', 3, false, namespace,"
             " id, sha256(''), state, attempt FROM idempotency.records WHERE scope = 'one'");
  EXPECT_THAT(InPostgres(url, audit), ElementsAre(Contains(ids[0])));

  for (const auto& [sql, index] :
       {std::pair(SqlOfKey("idempotency.records", upper), "records_pkey"),
        std::pair(audit, "audit_log_by_record")}) {
    const Rows plan = InPostgres(url, "SET enable_seqscan = off; EXPLAIN " + sql);
    EXPECT_THAT(plan, Contains(Contains(HasSubstr(index)))) << sql;
    EXPECT_THAT(plan, Contains(Contains(HasSubstr("Index Cond: ((")))) << sql;
  }
}

void Shell(const std::string& command) {
  const auto shell = Process::Start({"/bin/sh", "-ec", command});
  ASSERT_TRUE(shell.ok()) << shell.status();
  const auto ended = (*shell)->Wait();
  EXPECT_TRUE(ended.ok() && ended->code == 0) << (*shell)->Stderr();
}

// The commands of a step of the entry.
std::string CommandsOfARepair(absl::string_view step) {
  std::ifstream file(IDEMPOTENCY_RUNBOOK);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string fence = "   ```\n";
  const std::size_t entry = page.find("\n## Records were purged by mistake\n");
  const std::size_t begin = page.find(fence, page.find(absl::StrCat("\n", step, " "), entry));
  const std::string commands =
      page.substr(begin + fence.size(), page.find(fence, begin + 1) - begin - fence.size());
  return absl::StrReplaceAll(commands, {{"\n   ", "\n"}});
}

// The same, with these databases.
std::string CommandsOfACopy(const std::string& copy, const std::string& database) {
  return absl::StrReplaceAll(CommandsOfARepair("5."),
                             {{"postgresql://OWNER@HOST/COPY", "'" + copy + "'"},
                              {"postgresql://OWNER@HOST/DATABASE", "'" + database + "'"},
                              {"'NAME'", "'payments'"}});
}

TEST(RunbookTest, RecordsThatWerePurgedComeBackFromACopy) {
  const std::string database = PostgresCluster::Shared().NewDatabase();
  const std::string copy = PostgresCluster::Shared().NewDatabase();
  MigrateStore(database);
  const DaemonProcess daemon(database);
  const ServiceClient client(daemon.address());
  const auto request = [](const std::string& key) {
    v1::ReserveRequest reserve = SomeReserve(key);
    reserve.mutable_record_key()->set_namespace_("payments");
    return reserve;
  };
  for (const std::string key : {"completed", "running", "again", "kept"}) {
    const auto reserved = client.Call(request(key));
    ASSERT_TRUE(reserved.ok()) << reserved.status();
    if (key == "running") continue;
    v1::CompleteRequest complete =
        SomeComplete(key, reserved->reserved().reservation_token(), "body");
    complete.mutable_record_key()->set_namespace_("payments");
    ASSERT_TRUE(client.Call(complete).ok());
  }
  const TempFolder folder;
  Shell("pg_dump --schema=idempotency --dbname='" + database + "' | psql --quiet --dbname='" +
        copy + "' --set=ON_ERROR_STOP=1");
  InPostgres(database, "DELETE FROM idempotency.records WHERE key <> 'kept'");
  ASSERT_TRUE(client.Call(request("again"))->has_reserved());
  Shell("cd '" + folder.File(".") + "'\n" + CommandsOfACopy(copy, database));
  EXPECT_THAT(InPostgres(database, "SELECT key, state FROM idempotency.records ORDER BY key"),
              ElementsAre(ElementsAre("again", "1"), ElementsAre("completed", "2"),
                          ElementsAre("kept", "2"), ElementsAre("running", "4")));
  EXPECT_TRUE(client.Call(request("completed"))->has_replay());
  EXPECT_TRUE(client.Call(request("running"))->has_outcome_unknown());
}

// A retry of a call whose record was purged: the clock of its client is ahead.
TEST(RunbookTest, AKeyOfAClockThatIsAheadDoesNotRunAgainAfterAPurge) {
  const auto date = Process::Start({"/bin/sh", "-ec", CommandsOfARepair("2.")});
  ASSERT_TRUE(date.ok()) << date.status();
  ASSERT_TRUE((*date)->Wait().ok());
  const std::string time(absl::StripAsciiWhitespace((*date)->Stdout()));
  ASSERT_FALSE(time.empty()) << (*date)->Stderr();
  const std::string made = Uuid::TimeOrdered(absl::Now() + absl::Seconds(2)).ToString();
  const TempFolder folder;
  const std::string config = folder.File("config");
  std::ofstream(config) << "identities { name: \"machine\" local: true }\n"
                        << "rules { identity: \"machine\" namespaces: \"*\" permissions: WRITE }\n"
                        << "namespaces { name: \"payments\" not_before: \"" << time << "\" }\n";
  const DaemonProcess daemon("sqlite:" + folder.File("records.db"), {"--config=" + config});
  v1::ReserveRequest retry = SomeReserve(made);
  retry.mutable_record_key()->set_namespace_("payments");
  const auto reserved = ServiceClient(daemon.address()).Call(retry);
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  EXPECT_TRUE(reserved->has_expired()) << reserved->ShortDebugString();
}

TEST(RunbookTest, CountsOpenCasesByNamespaceInSqliteWhileTheDaemonRuns) {
  const TempFolder folder;
  const std::string file = folder.File("records.db");
  const DaemonProcess daemon("sqlite:" + file);
  AddRecords(daemon.address());
  const Rows unknown = InSqlite(file, SqlOf("IdempotencyOutcomesUnknown", "FROM records"));
  EXPECT_THAT(unknown, ElementsAre(ElementsAre("payments", "2", _), ElementsAre("orders", "1", _)));
  ExpectTimes(unknown);
  const Rows reserved = InSqlite(file, SqlOf("IdempotencyReservationOld", "FROM records"));
  EXPECT_THAT(reserved,
              UnorderedElementsAre(ElementsAre("payments", "2", _), ElementsAre("orders", "1", _)));
  ExpectTimes(reserved);
}

}  // namespace
}  // namespace idempotency::internal::testing
