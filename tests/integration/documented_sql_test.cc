// The SQL of docs/ledger.md and docs/keys.md, against the completion ledger that it is for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::HasSubstr;

std::string FileText(const std::string& path) {
  std::ifstream file(absl::StrCat(IDEMPOTENCY_SOURCES, "/", path));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The only SQL of a page.
std::string SqlOf(const std::string& page) {
  const std::string text = FileText(absl::StrCat("docs/", page));
  const std::string fence = "```sql\n";
  const std::size_t begin = text.find(fence);
  if (begin == std::string::npos) {
    ADD_FAILURE() << page << " has no SQL";
    return "";
  }
  return text.substr(begin + fence.size(), text.find("```", begin + 1) - begin - fence.size());
}

TEST(DocumentedSqlTest, AKeyOfPostgresIsAUuidv7) {
  const auto schema = PostgresSchema::Create(TestPostgresUrl()).value();
  const absl::Time before = absl::Now();
  const std::optional<Uuid> key = Uuid::Parse(schema->Value(SqlOf("keys.md")));
  ASSERT_TRUE(key.has_value());
  const std::optional<absl::Time> made_at = key->TimeOrderedAt();
  ASSERT_TRUE(made_at.has_value()) << key->ToString();
  EXPECT_GE(*made_at, before - absl::Milliseconds(1));
  EXPECT_LE(*made_at, absl::Now() + absl::Milliseconds(1));
}

TEST(DocumentedSqlTest, EachRoleOfTheLedgerHasThePrivilegesThatItNeeds) {
  const auto schema = PostgresSchema::Create(TestPostgresUrl()).value();
  const auto run = [&](const std::string& sql) {
    const auto done = schema->Execute(sql);
    EXPECT_TRUE(done.ok()) << done.status();
  };
  // Roles are of the whole server, where other tests run.
  const std::string own = schema->Value("SELECT current_schema");
  const std::string orders = own + "_orders";
  const std::string guard = own + "_guard";
  const std::string sweep = own + "_sweep";
  run(FileText("interceptors/server/ledger/migrations/postgres/001_completions.up.sql"));
  for (const std::string& role : {orders, guard, sweep}) {
    run(absl::StrCat("CREATE ROLE ", role, "; GRANT USAGE ON SCHEMA ", own, " TO ", role));
  }
  run(absl::StrReplaceAll(SqlOf("ledger.md"), {{"TO orders_guard;", "TO " + guard + ";"},
                                               {"TO orders_sweep;", "TO " + sweep + ";"},
                                               {"TO orders;", "TO " + orders + ";"}}));

  run("SET ROLE " + orders);
  run("INSERT INTO idempotency_completions (record_id, namespace, scope, operation, key,"
      " fingerprints, attempt, reply, reply_digest, created_at, sweepable_at)"
      " SELECT gen_random_uuid(), 'n', 's', 'o', 'k', 'f', 1, 'r', sha256('r'),"
      " now() - interval '2 days', now() - interval '1 day'");
  EXPECT_THAT(schema->Execute("SELECT 1 FROM idempotency_completions").status().message(),
              HasSubstr("permission denied"));
  run("SET ROLE " + guard);
  EXPECT_EQ(schema->Value("SELECT count(*) FROM idempotency_completions"), "1");
  run("SET ROLE " + sweep);
  EXPECT_EQ(schema->Value("SELECT idempotency_sweep_completions(10)"), "1");

  run("RESET ROLE");
  for (const std::string& role : {orders, guard, sweep}) {
    run(absl::StrCat("DROP OWNED BY ", role, "; DROP ROLE ", role));
  }
}

}  // namespace
}  // namespace idempotency::internal::testing
