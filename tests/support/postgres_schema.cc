#include "tests/support/postgres_schema.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/schema/migrator.h"

namespace idempotency::internal::testing {
namespace {

// VOLATILE, so that every call reads it again, like the clock that it replaces.
constexpr char kTestClock[] = R"sql(
CREATE TABLE test_clock (now timestamptz NOT NULL);
INSERT INTO test_clock VALUES (date_trunc('milliseconds', clock_timestamp()));
CREATE FUNCTION test_now() RETURNS timestamptz LANGUAGE sql VOLATILE
  AS 'SELECT now FROM {schema}.test_clock';
)sql";

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresSchema>> PostgresSchema::Create(
    const std::string& url, const PostgresSchemaOptions& options) {
  PostgresOptions store_options;
  store_options.url = url;
  store_options.schema =
      absl::StrCat("test_", absl::StrReplaceAll(Uuid::Random().ToString(), {{"-", ""}}));
  std::unique_ptr<PostgresSchema> schema(
      new PostgresSchema(std::move(store_options)));  // private constructor
  if (options.migrate) {
    if (auto applied = PostgresMigrator(schema->options_).Up(); !applied.ok()) {
      return applied.status();
    }
  }
  if (options.test_clock) {
    if (absl::Status status = schema->InstallClock(); !status.ok()) return status;
  }
  return schema;
}

PostgresSchema::~PostgresSchema() {
  Execute(absl::StrCat("DROP SCHEMA IF EXISTS ", options_.schema, " CASCADE"))
      .status()
      .IgnoreError();
}

absl::Status PostgresSchema::InstallClock() {
  options_.clock_sql = absl::StrCat(options_.schema, ".test_now()");
  options_.max_clock_ahead = absl::InfiniteDuration();
  return Execute(absl::StrReplaceAll(kTestClock, {{"{schema}", options_.schema}})).status();
}

absl::Status PostgresSchema::Connect() {
  if (connection_ != nullptr && connection_->Usable()) return absl::OkStatus();
  auto opened = PostgresConnection::Open(options_, watchdog_);
  if (!opened.ok()) return opened.status();
  connection_ = *std::move(opened);
  // A test holds locks, and waits for them, without a limit.
  return connection_
      ->ExecuteScript("SET lock_timeout TO 0; SET idle_in_transaction_session_timeout TO 0")
      .status();
}

absl::StatusOr<PostgresResult> PostgresSchema::Execute(const std::string& sql) {
  if (absl::Status connected = Connect(); !connected.ok()) return connected;
  return connection_->ExecuteScript(sql);
}

absl::StatusOr<PostgresResult> PostgresSchema::ExecuteWithin(const std::string& sql,
                                                             absl::Duration timeout) {
  if (absl::Status connected = Connect(); !connected.ok()) return connected;
  return connection_->ExecuteScriptWithin(sql, timeout);
}

std::string PostgresSchema::Value(const std::string& sql) {
  const auto result = Execute(sql);
  if (!result.ok() || result->rows() == 0) {
    ADD_FAILURE() << "no value: " << result.status();
    return "";
  }
  return result->Text(0, 0);
}

absl::Time PostgresSchema::Now() {
  std::int64_t micros = 0;
  const std::string text =
      Value("SELECT (extract(epoch FROM now) * 1000000)::bigint FROM test_clock");
  if (!absl::SimpleAtoi(text, &micros)) ADD_FAILURE() << "the test clock reads " << text;
  return absl::FromUnixMicros(micros);
}

void PostgresSchema::Advance(absl::Duration duration) {
  const auto done =
      Execute(absl::StrCat("UPDATE test_clock SET now = now + ",
                           absl::ToInt64Microseconds(duration), " * interval '1 microsecond'"));
  if (!done.ok()) ADD_FAILURE() << "the test clock does not move: " << done.status();
}

}  // namespace idempotency::internal::testing
