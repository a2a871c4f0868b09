// The store depends on these properties, which libpqxx itself does not promise.
#include "server/store/postgres/connection/connection.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"

#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

class PostgresConnectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl());
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    auto connection = PostgresConnection::Open(schema_->options(), watchdog_);
    ASSERT_TRUE(connection.ok()) << connection.status();
    connection_ = *std::move(connection);
  }

  SocketWatchdog watchdog_;
  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresConnection> connection_;
};

TEST_F(PostgresConnectionTest, ALostConnectionStaysLost) {
  const PostgresStatement end{"end", "SELECT pg_terminate_backend(pg_backend_pid())"};
  const PostgresStatement one{"one", "SELECT 1"};
  ASSERT_TRUE(connection_->Execute(one, {}).ok());
  EXPECT_EQ(connection_->Execute(end, {}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(connection_->Execute(one, {}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(connection_->ExecuteScript("SELECT 1").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(connection_->Begin().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(connection_->Usable());
}

TEST_F(PostgresConnectionTest, AReadOnlyServerIsRefusedWithTheReason) {
  PostgresOptions options = schema_->options();
  options.url += absl::StrContains(options.url, "?") ? "&" : "?";
  options.url += "options=-c%20default_transaction_read_only%3Don";
  const absl::Status refused = PostgresConnection::Open(options, watchdog_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(refused.message(), "postgres is read-only")) << refused;
}

// The default of the server, or of the login, may log them all.
TEST_F(PostgresConnectionTest, FailedStatementsLogNoParameters) {
  PostgresOptions options = schema_->options();
  options.url += absl::StrContains(options.url, "?") ? "&" : "?";
  options.url += "options=-c%20log_parameter_max_length_on_error%3D-1";
  const auto connection = PostgresConnection::Open(options, watchdog_);
  ASSERT_TRUE(connection.ok()) << connection.status();
  const auto shown = (*connection)->ExecuteScript("SHOW log_parameter_max_length_on_error");
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->Text(0, 0), "0");
}

TEST_F(PostgresConnectionTest, AConnectionThatWasEndedWhileIdleIsNotUsable) {
  const auto pid = connection_->ExecuteScript("SELECT pg_backend_pid()");
  ASSERT_TRUE(pid.ok());
  EXPECT_TRUE(connection_->Usable());
  // Returns when the backend has exited.
  EXPECT_EQ(schema_->Value("SELECT pg_terminate_backend(" + pid->Text(0, 0) + ", 20000)"), "t");
  EXPECT_FALSE(connection_->Usable());
}

TEST_F(PostgresConnectionTest, AConnectionWithAnOpenTransactionIsNotUsable) {
  ASSERT_TRUE(connection_->Begin().ok());
  EXPECT_FALSE(connection_->Usable());
}

TEST_F(PostgresConnectionTest, WhatATransactionDidGoesWithIt) {
  ASSERT_TRUE(connection_->ExecuteScript("CREATE TABLE notes (text text)").ok());
  const PostgresStatement note{"note", "INSERT INTO notes VALUES ('x')"};
  ASSERT_TRUE(connection_->Begin().ok());
  ASSERT_TRUE(connection_->Execute(note, {}).ok());
  ASSERT_TRUE(connection_->Rollback().ok());
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM notes"), "0");
  ASSERT_TRUE(connection_->Begin().ok());
  ASSERT_TRUE(connection_->Execute(note, {}).ok());
  ASSERT_TRUE(connection_->Commit().ok());
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM notes"), "1");
  EXPECT_TRUE(connection_->Usable());
}

// libpqxx 6.4 drops the SQLSTATEs of the next two.
TEST_F(PostgresConnectionTest, ADeadlockIsRepeatedAFewTimes) {
  ASSERT_TRUE(connection_
                  ->ExecuteScript("CREATE SEQUENCE tries;"
                                  "CREATE FUNCTION stumble() RETURNS void LANGUAGE plpgsql AS $$"
                                  " BEGIN PERFORM nextval('tries');"
                                  " RAISE EXCEPTION 'no' USING ERRCODE = '40P01'; END $$")
                  .ok());
  const PostgresStatement stumble{"stumble", "SELECT stumble()"};
  EXPECT_EQ(connection_->Execute(stumble, {}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(schema_->Value("SELECT last_value FROM tries"), "4");
  EXPECT_TRUE(connection_->Usable());
}

TEST_F(PostgresConnectionTest, WhatStorageDoesNotGiveIsAMediaFailure) {
  ASSERT_TRUE(connection_
                  ->ExecuteScript("CREATE FUNCTION fail(state text) RETURNS void LANGUAGE plpgsql"
                                  " AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = state; END $$")
                  .ok());
  const PostgresStatement fail{"fail", "SELECT fail($1::text)"};
  const auto failure_of = [&](const char* state) {
    PostgresParameters parameters;
    parameters.AddBytes(state);
    return connection_->Execute(fail, parameters).status();
  };
  for (const char* const state : {"58030", "58P01"}) {
    EXPECT_TRUE(IsMediaFailure(failure_of(state))) << state;
    EXPECT_TRUE(IsUnreadable(failure_of(state))) << state;
    EXPECT_EQ(failure_of(state).code(), absl::StatusCode::kUnavailable) << state;
  }
  for (const char* const state : {"XX001", "XX002"}) {
    EXPECT_FALSE(IsMediaFailure(failure_of(state))) << state;
    EXPECT_TRUE(IsUnreadable(failure_of(state))) << state;
  }
  // An internal error that another part of the server reports, or another fault of the system.
  for (const char* const state : {"XX000", "58000", "58P02", "53100"}) {
    EXPECT_FALSE(IsUnreadable(failure_of(state))) << state;
  }
  EXPECT_TRUE(connection_->Usable());
}

// One among many holds up those behind it.
TEST_F(PostgresConnectionTest, ManyStatementsWaitBrieflyForLocks) {
  PostgresOptions options = schema_->options();
  options.lock_timeout = absl::Seconds(1);
  connection_ = PostgresConnection::Open(options, watchdog_).value();
  const PostgresStatement show{"show", "SELECT current_setting('lock_timeout')"};
  const auto shown = [](const auto& answer) { return answer.ok() ? answer->Text(0, 0) : "failed"; };
  EXPECT_EQ(shown(connection_->ExecuteOne(show, {})), "1s");
  for (const std::size_t many : {std::size_t{2}, PostgresConnection::kPipelined + 1}) {
    const std::vector<PostgresParameters> executions(many);
    const auto answers = connection_->ExecuteEach(show, executions);
    ASSERT_EQ(answers.size(), many);
    for (const auto& answer : answers) EXPECT_EQ(shown(answer), "15ms");
    EXPECT_EQ(shown(connection_->ExecuteOne(show, {})), "1s") << "the session is as before";
  }
  EXPECT_EQ(
      shown(connection_
                ->ExecuteEach(show, {PostgresParameters()}, PostgresConnection::LockWait::kBrief)
                .front()),
      "15ms");
  EXPECT_TRUE(connection_->Usable());
}

TEST_F(PostgresConnectionTest, AMissingPrivilegeIsDetectedByItsSqlstate) {
  ASSERT_TRUE(connection_->ExecuteScript("SET ROLE pg_monitor").ok());
  const auto read = connection_->ExecuteScript("SELECT FROM pg_authid");
  EXPECT_EQ(read.status().message(), "permission denied for table pg_authid (SQLSTATE 42501)")
      << "the server's first line, without what stands before";
  EXPECT_TRUE(connection_->Usable());
}

}  // namespace
}  // namespace idempotency::internal
