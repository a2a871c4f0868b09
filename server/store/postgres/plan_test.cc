// Each statement reads by an index, whatever the planner knows about the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "grpc_idempotency/uuid.h"
#include "postgres/socket_watchdog.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/postgres/statements/single_row.h"
#include "server/store/postgres/testing/store_fixture.h"

namespace idempotency::internal {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// The plans of a connection as the store opens it: each statement reads only the rows that it
// names.
class PostgresPlanTest : public PostgresStoreTest {
 protected:
  void SetUp() override {
    PostgresStoreTest::SetUp();
    for (const char* const table : {"records", "checkpoints"}) {
      ASSERT_TRUE(
          schema_->Execute(absl::StrCat("ALTER TABLE ", table, " SET (autovacuum_enabled = false)"))
              .ok());
    }
  }
  void Fill() {
    ASSERT_TRUE(schema_
                    ->Execute("INSERT INTO records (id, namespace, scope, operation, key, state,"
                              " require_recovery, attempt, token, created_at, lease_until,"
                              " expires_at, fingerprints)"
                              " SELECT gen_random_uuid(), 'n', 's', 'o', i::text, 1, false, 1,"
                              " gen_random_uuid(), now(), now(), now(), 'f'"
                              " FROM generate_series(1, 50000) i")
                    .ok());
  }
  void ExpectIndexLookups() {
    SocketWatchdog watchdog;
    auto connection = PostgresConnection::Open(schema_->options(), watchdog);
    ASSERT_TRUE(connection.ok());
    const PostgresStatements statements(schema_->options().clock_sql);
    const std::set<std::string> without_records = {
        statements.read_clock.name, statements.begin_session.name, statements.read_schema.name};
    const std::set<std::string> inserts = {statements.insert_one.name,
                                           statements.insert_one_relaxed.name,
                                           statements.probe_commit.name};
    for (const PostgresStatement& statement : statements.all()) {
      if (without_records.count(statement.name) > 0) continue;
      const std::string plan = PlanOf(**connection, statement);
      for (const char* const costly : {"Seq Scan", "Hash", "Merge", "Bitmap"}) {
        EXPECT_THAT(plan, Not(HasSubstr(costly))) << statement.name;
      }
      if (inserts.count(statement.name) == 0) {
        EXPECT_THAT(plan, HasSubstr("Index")) << statement.name;
        // A scan of a whole index has no condition.
        EXPECT_THAT(plan, HasSubstr("Index Cond")) << statement.name;
      }
      ExpectLookupsOfIds(statement, plan);
    }
    ExpectWalks(**connection, statements);
    ExpectSingleRowLookups();
    // Whether a record exists is looked up for each of a batch.
    for (const auto* const statement :
         {&statements.insert, &statements.insert_relaxed, &statements.complete_and_insert}) {
      EXPECT_THAT(PlanOf(**connection, *statement),
                  ContainsRegex("Index Only Scan using records_pkey on records r .*\n"
                                " *Index Cond: \\(\\(id >= "))
          << statement->name;
    }
  }
  // With the values, and after some executions without.
  void ExpectSingleRowLookups() {
    PostgresOptions options = schema_->options();
    options.statements = PostgresStatementMode::kSingleRow;
    SocketWatchdog watchdog;
    auto connection = PostgresConnection::Open(options, watchdog);
    ASSERT_TRUE(connection.ok());
    const SingleRowStatements statements(options.clock_sql);
    for (const char* const mode : {"force_custom_plan", "force_generic_plan"}) {
      SCOPED_TRACE(mode);
      const bool generic = absl::StrContains(mode, "generic");
      ASSERT_TRUE((*connection)->ExecuteScript(absl::StrCat("SET plan_cache_mode TO ", mode)).ok());
      for (const PostgresStatement& statement : statements.all()) {
        EXPECT_EQ((*connection)->TryPrepare(statement), "") << statement.name;
        const std::string plan =
            PlanWith(**connection, statement, ValuesOf(**connection, statement));
        for (const char* const costly : {"Seq Scan", "Hash", "Merge", "Bitmap"}) {
          EXPECT_THAT(plan, Not(HasSubstr(costly))) << statement.name << ":\n" << plan;
        }
        // The gauges read the beginning of a partial index.
        if (absl::StrContains(plan, " Scan") && plan.rfind("Limit", 0) != 0) {
          EXPECT_THAT(plan, HasSubstr("Index Cond")) << statement.name << ":\n" << plan;
        }
        // For the value of an id that is not ordered, the planner may choose the partial index of
        // those while it expects few of them; such a plan is made anew for each execution.
        if (generic) ExpectLookupsOfIds(statement, plan);
      }
    }
  }
  // A condition on the id alone is on a primary key: of any other index it reads every entry.
  static void ExpectLookupsOfIds(const PostgresStatement& statement, absl::string_view plan) {
    absl::string_view index;
    for (const absl::string_view line : absl::StrSplit(plan, '\n')) {
      if (absl::StrContains(line, " using ")) index = line;
      if (!absl::StrContains(line, "Index Cond: (id = ")) continue;
      EXPECT_THAT(index, ContainsRegex(" using (records|checkpoints)_pkey on "))
          << statement.name << ":\n"
          << plan;
    }
  }
  // Pages of administrators are ranges of one index, in its order.
  static void ExpectWalks(PostgresConnection& connection, const PostgresStatements& statements) {
    const std::pair<const PostgresStatement*, const char*> walks[] = {
        {&statements.list_namespace, "records_by_namespace"},
        {&statements.list_scope, "records_by_namespace"},
        {&statements.list_unknown, "records_unknown"},
        {&statements.list_children, "records_by_parent"},
        {&statements.purge_scope, "records_by_namespace"},
        {&statements.purge_namespace, "records_by_namespace"},
        {&statements.count_scope, "records_by_namespace"},
        {&statements.count_namespace, "records_by_namespace"},
        {&statements.read_contents, "records_by_namespace"},
        {&statements.places.in_scopes, "records_by_namespace"},
        {&statements.places.in_scope, "records_by_namespace"},
        {&statements.places.unknown, "records_unknown"},
        {&statements.places.children, "records_by_parent"},
        {&statements.read_audit, "audit_log_by_namespace"},
        {&statements.read_newest_audit, "audit_log_by_namespace"},
    };
    for (const auto& [statement, index] : walks) {
      const std::string plan = PlanOf(connection, *statement);
      // Below the limit there is the scan alone.
      const std::size_t limit = plan.find("Limit");
      // From either end.
      const std::size_t scan = plan.find(absl::StrCat(" using ", index, " on "));
      ASSERT_NE(limit, std::string::npos) << statement->name << plan;
      ASSERT_NE(scan, std::string::npos) << statement->name << plan;
      EXPECT_THAT(plan.substr(limit, scan - limit), Not(HasSubstr("Sort")))
          << statement->name << plan;
      EXPECT_THAT(plan.substr(scan, plan.find('\n', plan.find('\n', scan) + 1) - scan),
                  HasSubstr("Index Cond"))
          << statement->name << plan;
    }
  }

  // How many pages the server reads for it.
  static int PagesOf(PostgresConnection& connection, const PostgresStatement& statement,
                     const std::string& values) {
    EXPECT_EQ(connection.TryPrepare(statement), "") << statement.name;
    const auto plan = connection.ExecuteScript(
        absl::StrCat("EXPLAIN (ANALYZE, BUFFERS, TIMING off, COSTS off) EXECUTE \"", statement.name,
                     "\"", values));
    EXPECT_TRUE(plan.ok()) << statement.name << plan.status();
    // That of the whole plan is the first one.
    for (int row = 0; plan.ok() && row < plan->rows(); ++row) {
      const std::string line = plan->Text(row, 0);
      if (!absl::StrContains(line, "Buffers: ")) continue;
      int pages = 0;
      for (const absl::string_view count : absl::StrSplit(line, ' ')) {
        const std::pair<absl::string_view, absl::string_view> parts =
            absl::StrSplit(count, absl::MaxSplits('=', 1));
        int number = 0;
        if (absl::SimpleAtoi(parts.second, &number)) pages += number;
      }
      return pages;
    }
    ADD_FAILURE() << "no buffers of " << statement.name;
    return 0;
  }

 private:
  // A value of each parameter's type.
  static std::string ValuesOf(PostgresConnection& connection, const PostgresStatement& statement) {
    const auto values = connection.ExecuteScript(absl::StrCat(
        "SELECT coalesce('(' || string_agg(CASE type"
        " WHEN 'uuid' THEN quote_literal(gen_random_uuid()) WHEN 'text' THEN quote_literal('{}')"
        " WHEN 'timestamp with time zone' THEN 'now()' WHEN 'boolean' THEN 'false'"
        " WHEN 'bytea' THEN quote_literal('f') WHEN 'interval' THEN quote_literal('1 s')"
        " WHEN 'smallint' THEN '1' WHEN 'integer' THEN '1' WHEN 'bigint' THEN '1'"
        " ELSE 'NULL' END, ',' ORDER BY place) || ')', '')"
        " FROM (SELECT type::text, place FROM pg_prepared_statements,"
        " unnest(parameter_types) WITH ORDINALITY types (type, place) WHERE name = '",
        statement.name, "') parameters"));
    EXPECT_TRUE(values.ok()) << statement.name << values.status();
    return values.ok() ? values->Text(0, 0) : "";
  }
  static std::string PlanOf(PostgresConnection& connection, const PostgresStatement& statement) {
    EXPECT_EQ(connection.TryPrepare(statement), "") << statement.name;
    const auto count =
        connection.ExecuteScript(absl::StrCat("SELECT coalesce(array_length(parameter_types, 1), 0)"
                                              " FROM pg_prepared_statements WHERE name = '",
                                              statement.name, "'"));
    EXPECT_TRUE(count.ok());
    std::string nulls;
    for (int i = 0; i < count->Integer(0, 0); ++i) nulls += i == 0 ? "(NULL" : ",NULL";
    if (!nulls.empty()) nulls += ")";
    return PlanWith(connection, statement, nulls);
  }
  static std::string PlanWith(PostgresConnection& connection, const PostgresStatement& statement,
                              const std::string& values) {
    const auto plan =
        connection.ExecuteScript(absl::StrCat("EXPLAIN EXECUTE \"", statement.name, "\"", values));
    EXPECT_TRUE(plan.ok()) << statement.name << plan.status();
    std::string text;
    for (int row = 0; plan.ok() && row < plan->rows(); ++row) text += plan->Text(row, 0) + "\n";
    return text;
  }
};

TEST_F(PostgresPlanTest, OnATableThatWasNeverAnalysed) {
  ExpectIndexLookups();
  Fill();
  ExpectIndexLookups();
}

// The worst case for the planner.
TEST_F(PostgresPlanTest, OnATableThatWasAnalysedWhileEmpty) {
  ASSERT_TRUE(schema_->Execute("ANALYZE records; ANALYZE checkpoints").ok());
  ExpectIndexLookups();
  Fill();
  ExpectIndexLookups();
}

// Of a table that the sweep has emptied the statistics keep the pages.
TEST_F(PostgresPlanTest, OnATableThatWasAnalysedAfterTheSweepEmptiedIt) {
  Fill();
  ASSERT_TRUE(schema_->Execute("DELETE FROM records; ANALYZE records; ANALYZE checkpoints").ok());
  ExpectIndexLookups();
  Fill();
  ExpectIndexLookups();
}

TEST_F(PostgresPlanTest, OnATableWithOneRecordLeft) {
  Fill();
  ASSERT_TRUE(
      schema_
          ->Execute(
              "DELETE FROM records WHERE id < (SELECT id FROM records ORDER BY id DESC LIMIT 1)")
          .ok());
  ASSERT_TRUE(schema_->Execute("VACUUM ANALYZE records").ok());
  ExpectIndexLookups();
  Fill();
  ExpectIndexLookups();
}

// The end of a range is found without the rows behind it.
TEST_F(PostgresPlanTest, AWalkReadsNothingBehindItsRange) {
  ASSERT_TRUE(schema_
                  ->Execute("INSERT INTO records (id, namespace, scope, operation, key, state,"
                            " require_recovery, attempt, token, created_at, lease_until,"
                            " expires_at, fingerprints, watched, parent_namespace, parent_scope,"
                            " parent_operation, parent_key)"
                            " SELECT gen_random_uuid(), 'n', 's', 'o', i::text, 4, false, 1,"
                            " gen_random_uuid(), now(), now(), now(), 'f', true, 'n', 's', 'o', 'p'"
                            " FROM generate_series(1, 50000) i")
                  .ok());
  ASSERT_TRUE(schema_->Execute("VACUUM ANALYZE records").ok());
  SocketWatchdog watchdog;
  auto connection = PostgresConnection::Open(schema_->options(), watchdog);
  ASSERT_TRUE(connection.ok());
  const PostgresStatements batched(schema_->options().clock_sql);
  const SingleRowStatements single_row(schema_->options().clock_sql);
  const std::string first = absl::StrCat("'", Uuid().ToString(), "'");
  const std::string second = "'00000000-0000-0000-0000-000000000001'";
  const auto values = [](const std::vector<std::string>& all) {
    return absl::StrCat("(", absl::StrJoin(all, ","), ")");
  };
  // Behind each there are 50,000 rows.
  const std::string scope = values({"'n'", "'a'", first, "500"});
  const std::string in_scope = values({"'n'", "'s'", first, second, "500"});
  const std::string scopes = values({"'n'", "'a'", first, "'b'", "500"});
  const std::pair<const PostgresStatement*, std::string> walks[] = {
      {&batched.list_scope, scope},
      {&batched.count_scope, values({"false", "'n'", "'a'", first, "500"})},
      {&batched.places.in_scope, in_scope},
      {&batched.places.in_scopes, scopes},
      {&batched.places.unknown, values({"'n'", first, second, "500"})},
      {&batched.places.children, values({"'p'", first, second, "500"})},
      {&single_row.measure_usage_in_scope, values({"'n'", "'s'", first, second, "500", "now()"})},
      {&single_row.measure_usage_in_scopes, values({"'n'", "'a'", first, "'b'", "500", "now()"})},
  };
  for (const auto& [statement, parameters] : walks) {
    // The levels of an index, and their neighbours.
    EXPECT_LE(PagesOf(**connection, *statement, parameters), 8) << statement->name;
  }
}

TEST_F(PostgresPlanTest, OnATableOfItsRealSize) {
  Fill();
  ASSERT_TRUE(schema_->Execute("ANALYZE records; ANALYZE checkpoints").ok());
  ExpectIndexLookups();
}

}  // namespace
}  // namespace idempotency::internal
