#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_CONNECTION_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_CONNECTION_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "postgres/socket_watchdog.h"
#include "postgres/watched_connection.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/connection/result.h"
#include "server/store/postgres/options.h"

namespace idempotency::internal {

// A statement and the name under which a connection prepares it, once.
struct PostgresStatement {
  std::string name;
  std::string sql;
  // Within a transaction of libpqxx, which has no binary results, always text.
  ResultFormat results = ResultFormat::kText;
};

// One connection of the store (postgres/watched_connection.h), with its settings.
//
// The status of failures; none contains SQL, parameters or the server's text (which may
// quote them), only its SQLSTATE:
//   INVALID_ARGUMENT  A value that the server cannot hold. Nothing happened.
//   INTERNAL          The statement violated a constraint of the schema. Nothing
//                     happened.
//   DEADLINE_EXCEEDED Another connection held a lock for longer than the lock
//                     timeout. Nothing happened.
//   DATA_LOSS         The server cannot read a page, of a table or an index. Nothing
//                     happened.
//   CANCELLED         Only of ExecuteEach(), which names the cases.
//   UNAVAILABLE       Anything else. The statement may or may not have happened, except where
//                     IsMediaFailure(): then nothing happened.
//
// Thread-compatible.
class PostgresConnection {
 public:
  // Connects, and sets the connection up. Blocks up to the connect timeout.
  // UNAVAILABLE if it cannot; the reason is logged. FAILED_PRECONDITION, with what to do, behind a
  // pooler. `watchdog`, which bounds every
  // later call, outlives the connection.
  static absl::StatusOr<std::unique_ptr<PostgresConnection>> Open(const PostgresOptions& options,
                                                                  SocketWatchdog& watchdog);
  ~PostgresConnection();

  // Prepares the statement on first use and runs it, in a transaction of its own unless
  // one is open, and then without a NULL among its parameters. Deadlocks and serialization failures
  // are repeated a few times, outside of transactions. The connection is abandoned if there is no
  // answer within `time_limit`, or the reply timeout if that is shorter.
  absl::StatusOr<PostgresResult> Execute(const PostgresStatement& statement,
                                         const PostgresParameters& parameters,
                                         absl::Duration time_limit = absl::InfiniteDuration());
  // Sends a statement whose end the next call, Execute() with the same arguments, awaits: for a
  // thread that must not wait (server/store/held_connection.h). False if nothing was sent: the
  // connection is lost, has not executed the statement yet, or the parameters have more than
  // kMaxSentBytes, which a socket might not take at once.
  static constexpr std::size_t kMaxSentBytes = 8 * 1024;
  bool Send(const PostgresStatement& statement, const PostgresParameters& parameters);
  // Readable when the end of what was sent has arrived, when the connection ended, and when the
  // server has sent a notice.
  int descriptor() const { return connection_->descriptor(); }

  // How long a statement of ExecuteEach() waits for a lock.
  enum class LockWait {
    // PostgresOptions::lock_timeout.
    kFull,
    // The part of it of one statement among kPipelined: for work that is done later as well.
    kBrief,
  };
  // Executes the statement once for each of `executions`, in a pipeline of kPipelined at a time,
  // each in a transaction of its own unless one is open. One answer each: a failure of one does not
  // affect the others, and an UNAVAILABLE one need not mean a lost connection (a distributed server
  // lost the node of that row). Deadlocks and serialization failures are repeated as above.
  //
  // A statement that waits holds up those behind it. So several wait briefly at first, and after
  // the others those that met a lock again, together for about the lock timeout: one waits for the
  // whole of it, then the others briefly. Where kPipelined of them met a lock, the next pipeline is
  // not sent.
  //
  // CANCELLED for one that the server ended, as at its statement timeout: on a distributed server
  // the row's node may have committed it. Where kMaxLockWaits were ended, the next pipeline is not
  // sent. CANCELLED too for each that was not sent.
  static constexpr std::size_t kPipelined = 64;
  static constexpr int kMaxLockWaits = 4;
  std::vector<absl::StatusOr<PostgresResult>> ExecuteEach(
      const PostgresStatement& statement, absl::Span<const PostgresParameters> executions,
      LockWait lock_wait = LockWait::kFull);
  // While there is one, what the server cannot read (IsUnreadable) is not logged: the search for
  // such a row meets that many times, after a statement that is logged.
  class Search {
   public:
    explicit Search(PostgresConnection& connection)
        : connection_(connection), was_in_one_(std::exchange(connection.in_search_, true)) {}
    ~Search() { connection_.in_search_ = was_in_one_; }
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

   private:
    PostgresConnection& connection_;
    const bool was_in_one_;
  };

  // For one execution, whose parameters may be NULL.
  absl::StatusOr<PostgresResult> ExecuteOne(const PostgresStatement& statement,
                                            const PostgresParameters& parameters);
  // Only prepares it on the server. Returns the SQLSTATE, "" on success.
  std::string TryPrepare(const PostgresStatement& statement);
  // Runs statements without parameters, separated by semicolons. For
  // migrations: a failure also holds the server's message, for operators.
  absl::StatusOr<PostgresResult> ExecuteScript(const std::string& sql);

  // How long each statement may take from now on, in place of PostgresOptions::statement_timeout.
  absl::Status SetStatementTimeout(absl::Duration timeout);
  // The same as ExecuteScript(), where each statement may take `statement_timeout`.
  absl::StatusOr<PostgresResult> ExecuteScriptWithin(const std::string& sql,
                                                     absl::Duration statement_timeout);

  // A transaction of several statements; one at a time. A connection that is
  // returned with one open is not usable again.
  absl::Status Begin();
  // UNAVAILABLE also if it is unknown whether it took place.
  absl::Status Commit();
  absl::Status Rollback();

  // False once the connection is lost, or its server has stopped or cannot write.
  // Detects a server that stopped while the connection was idle.
  bool Usable();
  // The same without a look at the socket: as far as the calls so far have shown.
  bool Intact();
  // The connection ended during a call, or did not answer: the failure does not
  // concern the statement itself.
  bool lost() const { return broken_; }
  int server_version() const;
  // Through a unix socket or an address of this machine.
  bool IsLocal();

 private:
  // The result of a call to the server.
  struct Outcome {
    std::string state;  // its SQLSTATE, or one in its stead; "" for success
    std::string message;
  };

  // A statement that was sent, until its end is known.
  struct Sent {
    std::string statement;
    std::unique_ptr<SocketWatchdog::Watch> watch;
  };

  // Executions of one ExecuteEach(), by their index, and their answers so far.
  struct Pipelines {
    const PostgresStatement& statement;
    absl::Span<const PostgresParameters> executions;
    std::vector<absl::StatusOr<PostgresResult>> answers;
  };
  using Indices = std::vector<std::size_t>;

  PostgresConnection(std::unique_ptr<WatchedConnection> connection, const PostgresOptions& options);

  // One attempt of Execute().
  absl::StatusOr<PostgresResult> ExecuteNow(const PostgresStatement& statement,
                                            const PostgresParameters& parameters,
                                            absl::Duration time_limit);
  // The same within the open transaction, which is libpqxx's.
  absl::StatusOr<PostgresResult> ExecuteInTransaction(const PostgresStatement& statement,
                                                      const PostgresParameters& parameters,
                                                      absl::Duration time_limit);
  absl::StatusOr<PostgresResult> Receive(const PostgresStatement& statement);

  // FAILED_PRECONDITION behind a pooler. A pooler answers for servers that it chooses, so the key
  // for cancelling statements, which contains the process of a connection, is its own.
  absl::Status CheckIsDirect();
  absl::Status SetUp(const PostgresOptions& options);
  // Runs `call`, until the reply timeout or for `time_limit`, and catches its
  // exceptions.
  Outcome Attempt(absl::FunctionRef<void()> call,
                  absl::Duration time_limit = absl::InfiniteDuration());
  // The same within the open transaction, else in one of the statement's own.
  Outcome AttemptIn(absl::FunctionRef<void(pqxx::transaction_base&)> call);
  absl::Status ToStatus(const Outcome& outcome);
  void LogFailures(absl::Span<const PipelinedOutcome> outcomes, LockWait lock_wait) const;
  // For the SQLSTATE of a statement that failed.
  absl::Status FailureOf(const std::string& state);
  absl::StatusOr<PostgresResult> ToAnswer(const PipelinedOutcome& outcome);

  // Answers those of `indices`. Returns those that met a lock.
  Indices ExecuteSome(Pipelines& pipelines, const Indices& indices, LockWait lock_wait);
  // The same for those of `locked`, which met a lock already: afterwards each is done, or was
  // found locked again when the lock timeout was over.
  void WaitForLocks(Pipelines& pipelines, Indices locked);
  // Those of `indices`, kPipelined at most, once. Returns those to be repeated.
  Indices ExecuteOnce(Pipelines& pipelines, const Indices& indices, LockWait lock_wait);
  // The outcome of each.
  std::vector<PipelinedOutcome> RunPipeline(absl::Span<const PipelinedExecution> executions);

  const absl::Duration reply_grace_;
  const absl::Duration lock_timeout_;
  // Statements that make the session wait for locks by LockWait; the second applies between calls.
  const PostgresStatement wait_briefly_;
  const PostgresStatement wait_fully_;
  absl::Duration reply_timeout_;
  std::unique_ptr<WatchedConnection> connection_;
  std::unique_ptr<pqxx::dbtransaction> transaction_;
  // The names of statements that the server has executed, and so has prepared.
  absl::flat_hash_set<std::string> executed_;
  std::optional<Sent> sent_;
  bool broken_ = false;
  bool in_search_ = false;
};

// Whether a statement failed at a bound of the server's, as of its memory or temporary files.
bool IsInsufficientResources(const absl::Status& failure);

// Whether the storage of the server did not give it a part of a file, as on a bad sector, or where
// a file is missing. A row elsewhere may be readable, and this one may be later: it is no damage.
bool IsMediaFailure(const absl::Status& failure);

// Whether the server cannot read a page, for either reason: DATA_LOSS, or a media failure.
bool IsUnreadable(const absl::Status& failure);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_CONNECTION_H_
