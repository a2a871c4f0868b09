#include "server/store/postgres/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/store/postgres/connection/conninfo.h"

namespace idempotency::internal {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

PostgresOptions Options() {
  PostgresOptions options;
  options.url = "postgresql://user@host/database";
  return options;
}

std::string ConninfoOf(const PostgresOptions& options) {
  const auto conninfo = PostgresConninfo(options);
  EXPECT_TRUE(conninfo.ok()) << conninfo.status();
  return conninfo.value_or("");
}

TEST(PostgresOptionsTest, TheDefaultsAreThoseThatAreDocumented) {
  const PostgresOptions options;
  EXPECT_EQ(options.schema, "idempotency");
  EXPECT_EQ(options.connections, 4);
  EXPECT_EQ(options.connect_timeout, absl::Seconds(5));
  EXPECT_EQ(options.statement_timeout, absl::Seconds(10));
  EXPECT_EQ(options.reply_grace, absl::Seconds(5));
  EXPECT_EQ(options.lock_timeout, absl::Seconds(1));
  EXPECT_EQ(options.locked_pause, absl::Seconds(2));
  EXPECT_EQ(options.unreadable_pause, absl::Minutes(10));
  EXPECT_EQ(options.idle_in_transaction_timeout, absl::Seconds(5));
  EXPECT_EQ(options.max_abandoned_sessions, 4);
  EXPECT_EQ(options.probe_timeout, absl::Seconds(5));
  EXPECT_EQ(options.commit_proof, absl::Seconds(5));
  EXPECT_EQ(options.nodes_timeout, absl::Seconds(1));
  EXPECT_EQ(options.nodes_proof, absl::Seconds(10));
  EXPECT_EQ(options.acquire_timeout, absl::Seconds(2));
  EXPECT_EQ(options.min_backoff, absl::Milliseconds(50));
  EXPECT_EQ(options.max_backoff, absl::Milliseconds(500));
  EXPECT_EQ(options.application_name, "idempotencyd");
  EXPECT_EQ(options.max_clock_ahead, absl::Minutes(5));
  EXPECT_EQ(options.clock_sql, "clock_timestamp()");
  // Both ends detect a machine that was lost after 25 s.
  EXPECT_EQ(kPostgresKeepaliveIdle + kPostgresKeepaliveCount * kPostgresKeepaliveInterval,
            kPostgresPeerTimeout);
  EXPECT_EQ(kPostgresPeerTimeout, absl::Seconds(25));
}

TEST(PostgresOptionsTest, AUrlIsNeeded) {
  EXPECT_TRUE(ValidatePostgresOptions(Options()).ok());
  EXPECT_EQ(ValidatePostgresOptions(PostgresOptions()).code(), absl::StatusCode::kInvalidArgument);
}

TEST(PostgresOptionsTest, ASchemaIsAPlainName) {
  PostgresOptions options = Options();
  for (const std::string& name : {std::string("a"), std::string("_a9"), std::string("pg"),
                                  std::string("tests_pg_"), std::string(63, 'a')}) {
    options.schema = name;
    EXPECT_TRUE(ValidatePostgresOptions(options).ok()) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("9a"), std::string("A"), std::string("a-b"), std::string("a b"),
        std::string("pg_a"), std::string("é"), std::string(64, 'a')}) {
    options.schema = name;
    EXPECT_THAT(ValidatePostgresOptions(options).ToString(), HasSubstr("postgres schema")) << name;
  }
}

TEST(PostgresOptionsTest, NumbersHaveBounds) {
  PostgresOptions options = Options();
  for (const int connections : {1, 1000}) {
    options.connections = connections;
    EXPECT_TRUE(ValidatePostgresOptions(options).ok()) << connections;
  }
  for (const int connections : {0, 1001}) {
    options.connections = connections;
    EXPECT_THAT(ValidatePostgresOptions(options).ToString(), HasSubstr("postgres connections"));
  }
  options = Options();
  options.max_abandoned_sessions = 1;
  EXPECT_TRUE(ValidatePostgresOptions(options).ok());
  options.max_abandoned_sessions = 0;
  EXPECT_THAT(ValidatePostgresOptions(options).ToString(), HasSubstr("max_abandoned_sessions"));
}

TEST(PostgresOptionsTest, EveryTimeoutIsBetweenAMillisecondAndAnHour) {
  for (absl::Duration PostgresOptions::*timeout :
       {&PostgresOptions::connect_timeout, &PostgresOptions::statement_timeout,
        &PostgresOptions::reply_grace, &PostgresOptions::probe_timeout,
        &PostgresOptions::nodes_timeout, &PostgresOptions::nodes_proof,
        &PostgresOptions::locked_pause, &PostgresOptions::unreadable_pause,
        &PostgresOptions::lock_timeout, &PostgresOptions::idle_in_transaction_timeout,
        &PostgresOptions::acquire_timeout, &PostgresOptions::min_backoff,
        &PostgresOptions::max_backoff}) {
    PostgresOptions options = Options();
    for (const absl::Duration good : {absl::Milliseconds(1), absl::Hours(1)}) {
      options.*timeout = good;
      EXPECT_TRUE(ValidatePostgresOptions(options).ok()) << good;
    }
    for (const absl::Duration bad :
         {absl::ZeroDuration(), absl::Microseconds(999), absl::Hours(1) + absl::Seconds(1)}) {
      options.*timeout = bad;
      EXPECT_THAT(ValidatePostgresOptions(options).ToString(), HasSubstr("postgres timeouts"))
          << bad;
    }
  }
}

TEST(PostgresOptionsTest, ACommitIsAProofForAnHourAtMost) {
  PostgresOptions options = Options();
  for (const absl::Duration good : {absl::ZeroDuration(), absl::Hours(1)}) {
    options.commit_proof = good;
    EXPECT_TRUE(ValidatePostgresOptions(options).ok()) << good;
  }
  for (const absl::Duration bad : {-absl::Nanoseconds(1), absl::Hours(1) + absl::Nanoseconds(1)}) {
    options.commit_proof = bad;
    EXPECT_THAT(ValidatePostgresOptions(options).ToString(), HasSubstr("commit_proof")) << bad;
  }
}

TEST(PostgresConninfoTest, ContainsTheSettingsOfAConnection) {
  const std::string conninfo = ConninfoOf(Options());
  for (const char* const setting :
       {"connect_timeout='5' ", "target_session_attrs='read-write' ",
        "application_name='idempotencyd' ", "keepalives_idle='10' ", "keepalives_interval='5' ",
        "keepalives_count='3' ", "tcp_user_timeout='15000' ", "user='user' ", "host='host' ",
        "dbname='database' "}) {
    EXPECT_THAT(conninfo, HasSubstr(setting));
  }
}

TEST(PostgresConninfoTest, TheUrlsSettingsFollowAndApplyExceptTheEncoding) {
  PostgresOptions options = Options();
  options.url += "?application_name=mine&connect_timeout=9&client_encoding=LATIN1";
  const std::string conninfo = ConninfoOf(options);
  EXPECT_LT(conninfo.find("application_name='idempotencyd' "),
            conninfo.find("application_name='mine' "));
  EXPECT_LT(conninfo.find("connect_timeout='5' "), conninfo.find("connect_timeout='9' "));
  EXPECT_THAT(conninfo, HasSubstr("connect_timeout='9' "));
  EXPECT_THAT(conninfo, HasSubstr("application_name='mine' "));
  EXPECT_THAT(conninfo, EndsWith("client_encoding='UTF8' "));
}

TEST(PostgresConninfoTest, SecondsAreWholeAndAtLeastTwo) {
  PostgresOptions options = Options();
  options.connect_timeout = absl::Milliseconds(1);
  EXPECT_THAT(ConninfoOf(options), HasSubstr("connect_timeout='2' "));
  options.connect_timeout = absl::Milliseconds(2001);
  EXPECT_THAT(ConninfoOf(options), HasSubstr("connect_timeout='3' "));
}

TEST(PostgresConninfoTest, QuotesAndBackslashesAreWhatTheyAre) {
  PostgresOptions options = Options();
  options.url = R"(host=h password='it\'s \\ mine')";
  EXPECT_THAT(ConninfoOf(options), HasSubstr(R"(password='it\'s \\ mine' )"));
}

TEST(PostgresConninfoTest, AUrlThatLibpqCannotReadIsInvalid) {
  PostgresOptions options = Options();
  options.url = "postgresql://[";
  EXPECT_EQ(PostgresConninfo(options).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SchemaInUrl(options.url), "");
}

}  // namespace
}  // namespace idempotency::internal
