#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_OPTIONS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace idempotency {

// How to reach Postgres. Version 14 or newer.
struct PostgresOptions {
  // A libpq connection string: "postgresql://user@host/database?sslmode=…" or
  // "host=… dbname=…". What it says wins over the settings below. With several
  // hosts the one that accepts writes is used.
  std::string url;
  // All tables live in this schema. A plain lower-case name.
  std::string schema = "idempotency";
  // Connections that one process opens, at most. Batches make two to four of
  // them enough for what one server can do.
  int connections = 4;

  // How long one attempt to connect may take, per host. libpq counts in whole
  // seconds, at least 2.
  absl::Duration connect_timeout = absl::Seconds(5);
  // The server gives a statement up after this long.
  absl::Duration statement_timeout = absl::Seconds(10);
  // When not even that was heard of (a stalled network, a stopped server, a
  // synchronous standby that does not confirm), this much later the connection
  // is given up.
  absl::Duration reply_grace = absl::Seconds(5);
  // How long a call waits for a free connection.
  absl::Duration acquire_timeout = absl::Seconds(2);

  // The first and the longest pause between attempts to connect. One caller of
  // a process tries at a time, so the longest one is how late a process notices
  // that Postgres is back, and two to four attempts a second are what a server
  // that is down sees of it.
  absl::Duration min_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Milliseconds(500);

  // The store's clock, as an SQL expression. Only tests have reason to change
  // it.
  std::string clock_sql = "clock_timestamp()";
};

// OK, or INVALID_ARGUMENT that names the option.
absl::Status ValidatePostgresOptions(const PostgresOptions& options);

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_OPTIONS_H_
