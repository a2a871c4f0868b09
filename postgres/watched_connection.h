#ifndef IDEMPOTENCY_POSTGRES_WATCHED_CONNECTION_H_
#define IDEMPOTENCY_POSTGRES_WATCHED_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "postgres/libpqxx.h"
#include "postgres/socket_watchdog.h"

namespace idempotency::internal {

// The rows of one statement of a pipeline.
using PipelinedRows = std::shared_ptr<const PGresult>;

// One parameter in binary form; no value is NULL.
using PipelinedValue = std::optional<std::string_view>;

// How the server writes the values of rows; the numbers are the protocol's.
enum class ResultFormat : int { kText = 0, kBinary = 1 };

// One execution of a prepared statement. What it refers to outlives the call.
struct PipelinedExecution {
  const std::string* name = nullptr;
  std::vector<PipelinedValue> values;
  ResultFormat results = ResultFormat::kText;
};

// How one statement ended, of a pipeline or of Send().
struct PipelinedOutcome {
  // Its SQLSTATE; "" for success. Without meaning if the connection was lost first.
  std::string state;
  // The file of the server's source code that reported the failure, such as "md.c".
  std::string source;
  // The connection ended before the statement's end was known.
  bool lost = true;
  // Committed here, but not confirmed by the synchronous standby.
  bool unconfirmed = false;
  // Set for success.
  PipelinedRows rows;
};

// One connection to a Postgres server, through libpqxx (docs/adr/0007), whose calls a watchdog
// bounds. It never reconnects: a new one would lack its settings, and a repeated statement might
// run twice.
//
// Throws what libpqxx throws. Thread-compatible.
class WatchedConnection {
 public:
  // Blocks up to the connect timeout of `conninfo`. `watchdog`, which bounds the calls, outlives
  // the connection.
  WatchedConnection(const std::string& conninfo, SocketWatchdog& watchdog);
  WatchedConnection(const WatchedConnection&) = delete;
  WatchedConnection& operator=(const WatchedConnection&) = delete;

  PostgresConnectionBase& libpqxx() { return connection_.libpqxx(); }

  // Runs `call`. Returns false if it did not return within `time_limit`: then the socket was shut
  // down, and the connection is lost.
  bool Watched(absl::Duration time_limit, absl::FunctionRef<void()> call);

  // Prepares a statement, on the first call with its name.
  void Prepare(const std::string& name, const std::string& sql);

  // Executes prepared statements in libpq's pipeline mode: all are sent before the first result is
  // awaited, and each is a transaction of its own unless one is open. One that fails does not
  // affect the others. `received` is called for each result. Never throws.
  std::vector<PipelinedOutcome> ExecutePipelined(
      absl::Span<const PipelinedExecution> executions,
      absl::FunctionRef<void(const PipelinedOutcome&)> received);

  // Sends one execution of a statement that the server has prepared. Does not wait where the
  // parameters fit the socket's buffer, which is empty while the connection is idle. False if the
  // connection is lost. Receive() awaits its end, and until then there is no other call. Never
  // throws.
  bool Send(const std::string& name, const std::vector<PipelinedValue>& values,
            ResultFormat results);
  // Reads what has arrived, before Receive() would wait for it. False if the connection is lost.
  // Does not wait, and never throws.
  bool ReadArrived();
  // Blocks. Never throws.
  PipelinedOutcome Receive();
  // Bounds the time until the destruction of the watch, as Watched() does.
  std::unique_ptr<SocketWatchdog::Watch> Watch(absl::Duration time_limit);
  // Readable when there is something to receive, and when the connection ended.
  int descriptor() const { return socket_.descriptor(); }

  // Whether, since the last call of this, a commit was reported without the synchronous standby's
  // confirmation.
  bool TakeUnconfirmedCommit();

  // The server has sent something to an idle connection: its last message before the end of the
  // connection, or a notice.
  bool HasUnreadInput();

 private:
  class CommitNotices : public PostgresNotices {
   public:
    using PostgresNotices::PostgresNotices;
    bool operator()(const char message[]) noexcept override;
    bool unconfirmed = false;
  };

  bool SendInPipeline(const PipelinedExecution& execution);
  PipelinedOutcome ReceiveInPipeline();
  // A result other than the end: of the statement, or of the connection.
  void Take(PipelinedRows result, PipelinedOutcome& outcome) const;

  SocketWatchdog& watchdog_;
  LibpqConnection connection_;
  SocketWatchdog::Target socket_;
  CommitNotices notices_;
  absl::flat_hash_set<std::string> prepared_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_POSTGRES_WATCHED_CONNECTION_H_
