#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_OPTIONS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "server/store/limits.h"

namespace idempotency::internal {

// The shape of the statements of a store.
enum class PostgresStatementMode {
  // One statement for a whole batch: one commit for many operations. For one Postgres.
  kBatched,
  // One statement and one commit for each record, in a pipeline: for a Postgres whose records are
  // distributed over several nodes (docs/scaling.md). Each statement names one record, so that it
  // concerns one node, and none locks a row for longer than it runs.
  kSingleRow,
};

// How to reach Postgres. Version 14 or newer.
struct PostgresOptions {
  // A libpq connection string: "postgresql://user@host/database?sslmode=…" or
  // "host=… dbname=…". Its settings take precedence over those below. With
  // several hosts the one that accepts writes is used.
  std::string url;
  // All tables are in this schema. A plain lower-case name. Where a program gets a URL,
  // its search_path selects it (SchemaInUrl).
  std::string schema = "idempotency";
  // The login with which sweeps run and administrators change records, where the one of `url` may
  // not: a connection string as that, to the same schema. Empty: the one of `url`.
  std::string maintenance_url;
  // The password of the login, where the URL has none; empty: libpq's PGPASSWORD or passfile.
  std::string password;
  // Connections that one process opens, at most. With batches two to four of
  // them are enough for the throughput of one server.
  int connections = 4;

  // How long one attempt to connect may take, per host. libpq counts in whole
  // seconds, at least 2.
  absl::Duration connect_timeout = absl::Seconds(5);
  // The server cancels a statement after this time.
  absl::Duration statement_timeout = absl::Seconds(10);
  // If not even the timeout's error arrives (a stalled network, a stopped
  // server, a synchronous standby that does not confirm), the connection is
  // abandoned this much later.
  absl::Duration reply_grace = absl::Seconds(5);
  // How long a statement waits for one row or table that another connection has
  // locked. Longer than any commit of another replica takes, shorter than a
  // heartbeat waits; a batch then continues without the locked rows, and their
  // operations are answered STORE_UNAVAILABLE. At most half of
  // statement_timeout counts, so that a lock is distinguishable from a slow
  // statement. Of several statements for single rows each waits briefly at first, and
  // those that met a lock again when the others are done (PostgresConnection::ExecuteEach).
  absl::Duration lock_timeout = absl::Seconds(1);
  // How long a row that was found locked is not waited for again: its operations are
  // answered STORE_UNAVAILABLE at once. Otherwise each repetition of a caller would
  // delay every operation in its batch.
  absl::Duration locked_pause = absl::Seconds(2);
  // How long the sweep and the measurements pass a row that the server could not read without
  // reading it: their failed statements fill the server's log.
  absl::Duration unreadable_pause = absl::Minutes(10);
  // The server ends a connection that stays in a transaction and sends nothing for
  // this long, and releases its locks: a frozen process no longer delays the
  // others. Longer than any pause of a process that runs.
  absl::Duration idle_in_transaction_timeout = absl::Seconds(5);
  // The number of statements, of this role and application on the server, that run
  // for longer than any caller waits, from which on no connection is opened. Each
  // belongs to a connection that its process abandoned; it waits for an unavailable
  // synchronous standby, and ends when the standby returns. Small: a process has 5
  // to 7 connections by default, and all processes abandon theirs at about the same time, so the
  // server has at most twice as many connections of this program as usual.
  int max_abandoned_sessions = 4;
  // The time limit of a commit that only tests whether commits succeed; then the
  // store counts as unavailable.
  absl::Duration probe_timeout = absl::Seconds(5);
  // How long a successful commit counts as proof that commits succeed; 0: not at all.
  absl::Duration commit_proof = absl::Seconds(5);
  // How long a check of the nodes of a distributed server may take, and how long it counts. While
  // a node is silent such a check is not answered.
  absl::Duration nodes_timeout = absl::Seconds(1);
  absl::Duration nodes_proof = absl::Seconds(10);
  // How long a call waits for a free connection.
  absl::Duration acquire_timeout = absl::Seconds(2);

  // The first and the longest pause between attempts to connect. One caller of
  // a process tries at a time, so the longest pause is the delay until a
  // process detects that Postgres is back, and a server that is down gets two
  // to four attempts per second from it.
  absl::Duration min_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Milliseconds(500);

  // The name in pg_stat_activity, unless the URL sets another.
  std::string application_name = "idempotencyd";

  // Connections only read: on a standby too, where transactions cannot write. Otherwise a server
  // that accepts no writes is not used.
  bool read_only = false;

  PostgresStatementMode statements = PostgresStatementMode::kBatched;
  // For kSingleRow: by how much the clocks of the nodes that connections reach may differ. A lease
  // counts as live, and a record as remembered, for that much longer. At most
  // limits::kClockStepMargin. Zero for one node, whose clock decides alone.
  absl::Duration clock_margin = absl::ZeroDuration();

  // By how much the server's clock may be ahead of this machine's while records are removed. Beyond
  // it one of the two is wrong, and records would be removed before their time: their keys would
  // run again. The same as the time for which they are kept longer than needed.
  absl::Duration max_clock_ahead = limits::kClockStepMargin;

  // The store's clock, as an SQL expression. Only tests change it.
  std::string clock_sql = "clock_timestamp()";
};

// Both ends of a connection check whether the other end's machine is reachable: after
// 10 s without a packet, then every 5 s; after three probes without an answer (25 s
// in all) the connection is over. The server then ends the transaction of a node that
// was lost, and with it the locks that it held.
inline constexpr absl::Duration kPostgresKeepaliveIdle = absl::Seconds(10);
inline constexpr absl::Duration kPostgresKeepaliveInterval = absl::Seconds(5);
inline constexpr int kPostgresKeepaliveCount = 3;
// The same for data that was sent and is not acknowledged by the other machine;
// keepalives do not run meanwhile. Used for the server's end: it waits for its client
// no longer than keepalives would. This side's end is bounded by the reply's timeout.
inline constexpr absl::Duration kPostgresPeerTimeout = absl::Seconds(25);

// Connections of PostgresOptions::maintenance_url: one sweeps, one measures the usage of
// namespaces, and one serves administrators.
inline constexpr int kPostgresMaintenanceConnections = 3;

// The same schema with the login of `maintenance_url`. libpq's PGPASSWORD is the one of `url`; this
// login has its own variable.
inline constexpr char kMaintenancePasswordVariable[] = "IDEMPOTENCYD_MAINTENANCE_PASSWORD";
PostgresOptions MaintenanceOptions(const PostgresOptions& options);

// OK, or INVALID_ARGUMENT that names the option.
absl::Status ValidatePostgresOptions(const PostgresOptions& options);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_OPTIONS_H_
