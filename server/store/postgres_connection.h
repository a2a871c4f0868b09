#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_H_

#include <libpq-fe.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/store/postgres_options.h"
#include "server/store/postgres_parameters.h"
#include "server/store/postgres_result.h"

namespace idempotency {

// A statement and the name under which a connection prepares it, once.
struct PostgresStatement {
  std::string name;
  std::string sql;
};

// One session. Uses libpq and not libpqxx, which 6.4 cannot: send arrays and
// read rows in binary, bound the wait for an answer, tell a warning by its
// origin, and never reconnect behind our back (a new session would lack our
// settings, and a repeated statement might run twice).
//
// Failures are of three kinds; none holds SQL, parameters or the server's text
// (which may quote them), only its SQLSTATE:
//   INVALID_ARGUMENT  A value that the server cannot hold. Nothing happened.
//   INTERNAL          The statement broke a rule of the schema. Nothing happened.
//   UNAVAILABLE       Anything else. The statement may or may not have happened.
//
// Thread-compatible.
class PostgresConnection {
 public:
  // Connects, and sets the session up. Blocks up to the connect timeout.
  // UNAVAILABLE if it cannot; why is logged.
  static absl::StatusOr<std::unique_ptr<PostgresConnection>> Open(const PostgresOptions& options);

  // Prepares the statement on first use and runs it, in a transaction of its
  // own unless one is open. Deadlocks and serialization failures are repeated
  // a few times, outside of transactions.
  absl::StatusOr<PostgresResult> Execute(const PostgresStatement& statement,
                                         const PostgresParameters& parameters);
  // Only asks the server to plan it. Answers the SQLSTATE, "" if it can.
  std::string TryPrepare(const PostgresStatement& statement);
  // Runs statements without parameters, separated by semicolons; text results.
  // For migrations: a failure also holds the server's message, for operators.
  absl::StatusOr<PostgresResult> ExecuteScript(const std::string& sql);

  // False once the session is lost, or its server has gone or cannot write.
  // Notices a server that went away while the connection lay idle.
  bool Usable();
  int server_version() const { return PQserverVersion(connection_.get()); }

 private:
  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };

  PostgresConnection(PGconn* connection, const PostgresOptions& options);

  static void OnNotice(void* self, const PGresult* notice);
  absl::Status SetUpSession(const PostgresOptions& options);
  absl::StatusOr<PostgresResult> ExecuteOnce(const PostgresStatement& statement,
                                             const PostgresParameters& parameters);
  absl::Status Prepare(const PostgresStatement& statement);
  // Waits for the answer to what was just sent. nullptr: the session is lost.
  PGresult* Await();
  // Waits until the socket can be read (or written, if asked). False: too late.
  bool WaitForSocket(bool for_writing, std::chrono::steady_clock::time_point deadline);
  absl::Status ToStatus(const PGresult* result);

  std::unique_ptr<PGconn, Finish> connection_;
  const std::chrono::milliseconds reply_timeout_;
  absl::flat_hash_set<std::string> prepared_;
  bool broken_ = false;
  // Of the last statement: its commit was reported without the synchronous
  // standby's confirmation.
  bool unconfirmed_ = false;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_H_
