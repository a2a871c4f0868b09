#ifndef IDEMPOTENCY_POSTGRES_POSTGRES_SESSION_H_
#define IDEMPOTENCY_POSTGRES_POSTGRES_SESSION_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "postgres/libpqxx.h"
#include "postgres/socket_watchdog.h"

namespace idempotency::internal {

// One session of a Postgres server, through libpqxx (docs/adr/0007). It never reconnects: a new
// session would lack the settings of this one, and a repeated statement might run twice.
//
// Throws what libpqxx throws. Thread-compatible.
class PostgresSession {
 public:
  // Blocks up to the connect timeout of `conninfo`. `watchdog`, which bounds the calls, outlives
  // the session.
  PostgresSession(const std::string& conninfo, SocketWatchdog& watchdog);
  PostgresSession(const PostgresSession&) = delete;
  PostgresSession& operator=(const PostgresSession&) = delete;

  pqxx::connection& connection() { return connection_; }

  // Runs `call`. Returns false if it did not return within `time_limit`: then the socket was shut
  // down, and the session is lost.
  bool Watched(absl::Duration time_limit, absl::FunctionRef<void()> call);

  // Prepares a statement on the first call with its name. libpqxx 6.4 sends it with its first
  // execution, later versions send it here.
  void Prepare(const std::string& name, const std::string& sql);
  // Sends it now, with any version.
  void PrepareNow(const std::string& name, const std::string& sql);

  // Whether, since the last call of this, a commit was reported without the synchronous standby's
  // confirmation.
  bool TakeUnconfirmedCommit();

  // The server has sent something to an idle session: its last message before the end of the
  // session, or a notice.
  bool HasUnreadInput();

 private:
  class CommitNotices : public PostgresNotices {
   public:
    using PostgresNotices::PostgresNotices;
    bool operator()(const char message[]) noexcept override;
    bool unconfirmed = false;
  };

  SocketWatchdog& watchdog_;
  pqxx::connection connection_;
  SocketWatchdog::Target socket_;
  CommitNotices notices_;
  absl::flat_hash_set<std::string> prepared_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_POSTGRES_POSTGRES_SESSION_H_
