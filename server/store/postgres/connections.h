#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTIONS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTIONS_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/mutex.h"
#include "postgres/socket_watchdog.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/statements/batched.h"

namespace idempotency::internal {

// Opens the connections of one store, and tracks whether its schema is still the
// original one.
//
//   - This side shuts a connection down while its statement waits for a synchronous
//     standby; the server's half continues to wait, for as long as the standby is
//     unavailable. While too many such halves wait, of this process or of others, no
//     connection is opened (PostgresOptions::max_abandoned_sessions): they would fill the
//     server.
//   - Each connection holds a lock that a downgrade does not get, so that no schema is
//     removed while a daemon uses it.
//   - A schema that was removed nevertheless (by hand), or replaced by an empty one, is
//     detected: its records are lost, and every key would run again.
//   - Records that were distributed after the statements were chosen, while this process had no
//     session, are detected: statements for whole batches behave wrongly on several nodes.
//   - A node of a distributed server whose commits are not durable is detected. One that is silent
//     fails the operations of its records alone, so it is checked once it answers.
//
// Thread-safe.
class PostgresConnections {
 public:
  // All three outlive it.
  PostgresConnections(const PostgresOptions& options, const PostgresStatements& statements,
                      SocketWatchdog& watchdog)
      : options_(options), statements_(statements), watchdog_(watchdog) {}

  // UNAVAILABLE if the server cannot be reached, has too many of this program's
  // connections, or no longer has the schema; the reason is logged.
  absl::StatusOr<std::unique_ptr<PostgresConnection>> Open();

  // Checks the schema. OK if this program may serve it, and it is the one of the first
  // check. UNAVAILABLE otherwise, with what to do.
  absl::Status CheckSchema(PostgresConnection& connection);
  // The result of the last check; costs nothing.
  absl::Status schema() const;
  // Checks the nodes where PostgresOptions::nodes_proof is over, with statements for single rows.
  // The result of the last check that was answered: OK, or UNAVAILABLE with what to do.
  absl::Status CheckNodes(PostgresConnection& connection);
  // Whether calls may use the server, by the last checks of schema and nodes; costs nothing.
  absl::Status served() const;

 private:
  // Whether this call is to check the nodes.
  bool TakeNodesCheck();
  absl::Status Begin(PostgresConnection& connection);
  // Whether the records are distributed, and the statements are those for whole batches.
  absl::StatusOr<bool> NeedsOtherStatements(PostgresConnection& connection) const;
  absl::Status Judge(const absl::StatusOr<PostgresResult>& looked)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const PostgresOptions& options_;
  const PostgresStatements& statements_;
  SocketWatchdog& watchdog_;

  mutable Mutex mutex_;
  absl::Status schema_ ABSL_GUARDED_BY(mutex_);
  absl::Status nodes_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::chrono::steady_clock::time_point> nodes_checked_at_ ABSL_GUARDED_BY(mutex_);
  // When the schema's first migration was applied: distinguishes it from one that was
  // recreated under its name. Empty until it was read.
  std::string identity_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTIONS_H_
