// The SQL of docs/runbook.md, against the schema that it is for.
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal::testing {
namespace {

// The first SQL of an alert's entry that contains `word`.
std::string SqlOf(const std::string& alert, const std::string& word) {
  std::ifstream file(IDEMPOTENCY_RUNBOOK);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string fence = "```sql\n";
  std::size_t begin = page.find("\n## " + alert + "\n");
  while ((begin = page.find(fence, begin)) != std::string::npos) {
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

}  // namespace
}  // namespace idempotency::internal::testing
