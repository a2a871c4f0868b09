#ifndef IDEMPOTENCY_TESTS_SUPPORT_POSTGRES_SCHEMA_H_
#define IDEMPOTENCY_TESTS_SUPPORT_POSTGRES_SCHEMA_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "postgres/socket_watchdog.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/options.h"

namespace idempotency::internal::testing {

struct PostgresSchemaOptions {
  // Apply every migration. Otherwise there is not even a schema.
  bool migrate = true;
  // A frozen clock for the store, in a table of the schema.
  bool test_clock = false;
};

// A separate schema, so that tests run side by side on one server. Dropped with the object.
//
// Thread-compatible.
class PostgresSchema {
 public:
  static absl::StatusOr<std::unique_ptr<PostgresSchema>> Create(
      const std::string& url, const PostgresSchemaOptions& options = {});
  ~PostgresSchema();

  // For a store, or a migrator, on this schema.
  const PostgresOptions& options() const { return options_; }

  // Runs SQL in the schema; results are text. A lost connection is replaced.
  absl::StatusOr<PostgresResult> Execute(const std::string& sql);
  // The same with a statement timeout of its own, for much work.
  absl::StatusOr<PostgresResult> ExecuteWithin(const std::string& sql, absl::Duration timeout);
  // The first column of the first row; fails the test if there is none.
  std::string Value(const std::string& sql);

  // With test_clock. Whole microseconds.
  absl::Time Now();
  void Advance(absl::Duration duration);

 private:
  explicit PostgresSchema(PostgresOptions options) : options_(std::move(options)) {}

  absl::Status InstallClock();
  // Replaces a lost connection.
  absl::Status Connect();

  SocketWatchdog watchdog_;
  PostgresOptions options_;
  std::unique_ptr<PostgresConnection> connection_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_POSTGRES_SCHEMA_H_
