#include "server/store/postgres/statements/sql_sections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "server/store/postgres/statements/batched.h"
#include "server/store/postgres/statements/single_row.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kSource = R"sql(
-- The text before the first section is left out.

-- piece: live
-- Comments are left out, {braces} and all.
t.until > {now}

-- statement: first
-- $1 id.
SELECT {columns} FROM records t
-- Here too.
WHERE t.id = $1::uuid AND {live}
)sql";
constexpr std::string_view kOther = R"sql(
-- piece: columns
t.id, t.until
-- statement: both
{first} UNION ALL ({first +11}) LIMIT $2
)sql";

SqlSections Both() { return SqlSections({kSource, kOther}, {{"now", "now()"}}); }

TEST(SqlSectionsTest, SectionsAndValuesStandForTheirNames) {
  const PostgresStatement first = Both().Statement("first");
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.sql,
            "SELECT t.id, t.until FROM records t\nWHERE t.id = $1::uuid AND t.until > now()");
}

TEST(SqlSectionsTest, ParametersStandBehindOthers) {
  const std::string sql = Both().Statement("both").sql;
  EXPECT_THAT(sql, HasSubstr("WHERE t.id = $1::uuid"));
  EXPECT_THAT(sql, HasSubstr("WHERE t.id = $12::uuid"));
  EXPECT_THAT(sql, HasSubstr("LIMIT $2"));
}

TEST(SqlSectionsTest, StatementsAreListed) {
  EXPECT_THAT(Both().statement_names(), ElementsAre("first", "both"));
}

TEST(SqlSectionsTest, WhatWasTakenIsListed) {
  SqlSections sections = Both();
  sections.Statement("both");
  sections.Statement("first", ResultFormat::kBinary);
  ASSERT_EQ(sections.statements().size(), 2u);
  EXPECT_EQ(sections.statements()[0].name, "both");
  EXPECT_EQ(sections.statements()[1].sql, Both().Statement("first").sql);
  EXPECT_EQ(sections.statements()[1].results, ResultFormat::kBinary);
}

TEST(SqlSectionsTest, WhatHasNoTextStaysInBraces) {
  SqlSections sections({kSource}, {});
  EXPECT_THAT(sections.Statement("first").sql, HasSubstr("{columns}"));
  EXPECT_THAT(sections.Statement("first").sql, HasSubstr("> {now}"));
  EXPECT_EQ(sections.Statement("none").sql, "{none}");
}

// Of the store's own SQL.
void ExpectComplete(SqlSections sections) {
  std::set<std::string> names;
  for (const std::string& name : sections.statement_names()) {
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    const std::string sql = sections.Statement(name).sql;
    EXPECT_THAT(sql, Not(HasSubstr("{"))) << name;
    EXPECT_THAT(sql, Not(HasSubstr("}"))) << name;
    EXPECT_THAT(sql, Not(HasSubstr("--"))) << name;
  }
}

TEST(SqlSectionsTest, NoStatementHasPlaceholdersLeft) {
  ExpectComplete(PostgresStatements::Sections("clock_timestamp()"));
  ExpectComplete(SingleRowStatements::Sections("clock_timestamp()"));
}

}  // namespace
}  // namespace idempotency::internal
