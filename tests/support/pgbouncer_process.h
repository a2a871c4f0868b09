#ifndef IDEMPOTENCY_TESTS_SUPPORT_PGBOUNCER_PROCESS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_PGBOUNCER_PROCESS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "tests/support/process.h"
#include "tests/support/server_files.h"

namespace idempotency::internal::testing {

// A real pgbouncer in front of all databases of a Postgres server, reached through a unix socket.
// It ends with the object.
//
// Thread-compatible.
class PgbouncerProcess {
 public:
  // `server` has the settings of its connections: "host=... port=... user=...". `pool_mode` is
  // "session", "transaction" or "statement".
  static absl::StatusOr<std::unique_ptr<PgbouncerProcess>> Start(const std::string& server,
                                                                 const std::string& pool_mode);

  // Of a database of the server. pgbouncer permits every user.
  std::string Url(const std::string& user, const std::string& database) const;
  // Its log so far.
  std::string Log() { return process_->Stdout(); }

 private:
  PgbouncerProcess() = default;

  ServerFiles files_;
  std::unique_ptr<Process> process_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_PGBOUNCER_PROCESS_H_
