#include "server/store/postgres/connection/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "postgres/direct_connection.h"
#include "postgres/libpqxx.h"
#include "server/store/postgres/connection/conninfo.h"

namespace idempotency::internal {
namespace {

// SQLSTATEs: https://www.postgresql.org/docs/current/errcodes-appendix.html
constexpr std::string_view kSerializationFailure = "40001";
constexpr std::string_view kDeadlockDetected = "40P01";
constexpr std::string_view kReadOnlyTransaction = "25006";
constexpr std::string_view kUnknownPreparedStatement = "26000";
constexpr std::string_view kInsufficientPrivilege = "42501";
constexpr std::string_view kLockNotAvailable = "55P03";
constexpr std::string_view kQueryCanceled = "57014";
constexpr std::string_view kInternalError = "XX000";
// A row, a part of its reply or an index entry that the server cannot read.
constexpr std::string_view kDataCorrupted = "XX001";
constexpr std::string_view kIndexCorrupted = "XX002";
// What storage does not give: a part of a file, or a file.
constexpr std::string_view kIoError = "58030";
constexpr std::string_view kUndefinedFile = "58P01";
// The same with an error code of the system for which Postgres has no SQLSTATE, as of a network
// file system: an internal error, which its storage manager reports.
constexpr std::string_view kInternalErrorOfStorage = "XX000 of storage";
// Represents every way to lose a connection.
constexpr std::string_view kConnectionFailure = "08006";
// A class.
constexpr std::string_view kInsufficientResources = "53";

// How a failure's message has the state.
std::string TextOf(std::string_view state) { return absl::StrCat("SQLSTATE ", AbslView(state)); }

// Those of tables and indexes, and of the state of transactions.
bool IsStorageManager(std::string_view source) { return source == "md.c" || source == "slru.c"; }

// The SQLSTATE of a statement that failed.
std::string StateOf(const PipelinedOutcome& outcome) {
  return outcome.state == kInternalError && IsStorageManager(outcome.source)
             ? std::string(kInternalErrorOfStorage)
             : outcome.state;
}

constexpr std::array kUnreadableStates = {kDataCorrupted, kIndexCorrupted, kIoError, kUndefinedFile,
                                          kInternalErrorOfStorage};

// Deadlocks cannot come from this store alone (ids are sorted); another
// writer's, for example a VACUUM FULL, is over soon.
constexpr int kMaxAttempts = 4;

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

template <typename Type>
bool Is(const std::exception& failure) {
  return dynamic_cast<const Type*>(&failure) != nullptr;
}

// The server's SQLSTATE. libpqxx 6.4 omits some, and then the exception's type
// determines it. Everything but an answer of the server (a lost connection, a
// commit in doubt, no memory) is a failed connection.
std::string_view StateOf(const std::exception& failure) {
  if (Is<pqxx::serialization_failure>(failure)) return kSerializationFailure;
  if (Is<pqxx::deadlock_detected>(failure)) return kDeadlockDetected;
  if (Is<pqxx::insufficient_privilege>(failure)) return kInsufficientPrivilege;
  const auto* const error = dynamic_cast<const pqxx::sql_error*>(&failure);
  if (error == nullptr) return kConnectionFailure;
  return error->sqlstate().empty() ? kInternalError : std::string_view(error->sqlstate());
}

// What libpq reports for `target_session_attrs=read-write`.
constexpr absl::string_view kReadOnlySession = "session is read-only";

// The reason for callers and operators, without addresses. UNAVAILABLE also for a server that is
// read-only: after a failover it may be the primary.
absl::Status CannotConnect(absl::string_view failure) {
  if (absl::StrContains(failure, kReadOnlySession)) {
    return absl::UnavailableError(
        "postgres is read-only: it is a standby, or default_transaction_read_only is on. Connect "
        "to the primary, or name all servers in the URL");
  }
  return absl::UnavailableError("cannot connect to postgres");
}

// The first line of "ERROR:  42P01: relation …", without the prefix.
std::string PrimaryMessage(std::string_view text, std::string_view state) {
  text = text.substr(0, text.find('\n'));
  const std::string label = absl::StrCat(AbslView(state), ": ");
  const std::size_t at = text.find(label);
  if (at != std::string_view::npos) text.remove_prefix(at + label.size());
  return std::string(text);
}

absl::Duration LockTimeout(const PostgresOptions& options) {
  return std::min(options.lock_timeout, options.statement_timeout / 2);
}

std::string SetLockTimeout(absl::Duration timeout) {
  // Never 0, which means no limit.
  return absl::StrCat("SET lock_timeout TO ",
                      std::max<std::int64_t>(absl::ToInt64Milliseconds(timeout), 1));
}

std::string ConnectionSettings(const PostgresOptions& options) {
  // Operations read few rows by primary key, and walks a range of one index. On a table
  // that was analysed while it was small the planner chooses other kinds of plans, and
  // throughput falls to a quarter. These settings keep it from those. From the wrong index the
  // predicates of the partial indexes do (migration 008), and the order of a range: another index
  // would have to be sorted.
  return absl::StrCat(
      "SET search_path TO ", options.schema, ";SET statement_timeout TO ",
      absl::ToInt64Milliseconds(options.statement_timeout), ";",
      SetLockTimeout(LockTimeout(options)), ";SET idle_in_transaction_session_timeout TO ",
      absl::ToInt64Milliseconds(options.idle_in_transaction_timeout),
      ";SET tcp_keepalives_idle TO ", absl::ToInt64Seconds(kPostgresKeepaliveIdle),
      ";SET tcp_keepalives_interval TO ", absl::ToInt64Seconds(kPostgresKeepaliveInterval),
      ";SET tcp_keepalives_count TO ", kPostgresKeepaliveCount, ";SET tcp_user_timeout TO ",
      absl::ToInt64Milliseconds(
          kPostgresPeerTimeout),  // The default of the server stays where this side may write.
      options.read_only ? ";SET default_transaction_read_only TO on" : "",
      ";SET default_transaction_isolation TO 'read committed'"
      ";SET plan_cache_mode TO ",
      // Citus plans what several nodes answer for its parameters' values only.
      options.statements == PostgresStatementMode::kSingleRow ? "auto" : "force_generic_plan",
      ";SET enable_seqscan TO off;SET enable_hashjoin TO off"
      ";SET enable_mergejoin TO off;SET enable_bitmapscan TO off;SET enable_sort TO off"
      ";SET enable_incremental_sort TO off"
      ";SET jit TO off"
      // An interrupted wait for a standby is reported by a warning alone.
      ";SET client_min_messages TO warning"
      // The server's log is no place for keys and replies. (log_parameter_max_length is for
      // superusers to set.)
      ";SET log_parameter_max_length_on_error TO 0"
      // Regardless of the server's default: an answered operation is durable,
      // also on a synchronous standby if there is one.
      ";SELECT set_config('synchronous_commit', 'on', false)"
      " WHERE current_setting('synchronous_commit') <> 'remote_apply'"
      // How PostgresResult reads text.
      ";SET timezone TO 'UTC';SET datestyle TO 'ISO';SET bytea_output TO 'hex'");
}

}  // namespace

PostgresConnection::PostgresConnection(std::unique_ptr<WatchedConnection> connection,
                                       const PostgresOptions& options)
    : reply_grace_(options.reply_grace),
      lock_timeout_(LockTimeout(options)),
      wait_briefly_{"wait_briefly",
                    SetLockTimeout(lock_timeout_ / static_cast<std::int64_t>(kPipelined))},
      wait_fully_{"wait_fully", SetLockTimeout(lock_timeout_)},
      reply_timeout_(options.statement_timeout + options.reply_grace),
      connection_(std::move(connection)) {}

PostgresConnection::~PostgresConnection() {
  if (transaction_ != nullptr) Rollback().IgnoreError();
}

absl::StatusOr<std::unique_ptr<PostgresConnection>> PostgresConnection::Open(
    const PostgresOptions& options, SocketWatchdog& watchdog) {
  const absl::StatusOr<std::string> conninfo = PostgresConninfo(options);
  if (!conninfo.ok()) {
    spdlog::warn("postgres: {}", conninfo.status().ToString());
    return absl::UnavailableError("cannot connect to postgres");
  }
  std::unique_ptr<PostgresConnection> opened;
  try {
    opened = absl::WrapUnique(  // its constructor is private
        new PostgresConnection(std::make_unique<WatchedConnection>(*conninfo, watchdog), options));
  } catch (const std::exception& failure) {
    // libpq's text names host, port, user and database; never the password.
    spdlog::warn("postgres: cannot connect: {}", failure.what());
    return CannotConnect(failure.what());
  }
  if (absl::Status status = opened->SetUp(options); !status.ok()) return status;
  return opened;
}

absl::Status PostgresConnection::CheckIsDirect() {
  const auto pid = ExecuteScript(kServerProcessQuery);
  if (!pid.ok()) return pid.status();
  if (IsDirect(connection_->libpqxx(), static_cast<int>(pid->Integer(0, 0)))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "the connection to postgres goes through a pooler, such as pgbouncer: its next statement may "
      "run in another session, without the settings that make a commit durable and end a lost one. "
      "Connect to the server itself: --store_connections bounds the sessions");
}

absl::Status PostgresConnection::SetUp(const PostgresOptions& options) {
  if (absl::Status direct = CheckIsDirect(); !direct.ok()) return direct;
  if (auto set = ExecuteScript(ConnectionSettings(options)); !set.ok()) return set.status();
  // Makes the warning about a standby readable, where the role may set it; it
  // is recognised by its origin otherwise.
  return ExecuteScript(
             "SELECT set_config('lc_messages', 'C', false) FROM pg_roles"
             " WHERE rolname = current_user AND rolsuper")
      .status();
}

int PostgresConnection::server_version() const { return connection_->libpqxx().server_version(); }

bool PostgresConnection::IsLocal() {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (getpeername(connection_->libpqxx().sock(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return false;
  }
  if (peer.ss_family == AF_UNIX) return true;
  if (peer.ss_family == AF_INET) {
    const auto* const ip = reinterpret_cast<const sockaddr_in*>(&peer);
    return ntohl(ip->sin_addr.s_addr) >> 24U == IN_LOOPBACKNET;
  }
  if (peer.ss_family != AF_INET6) return false;
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(&peer)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ip) ||
         (IN6_IS_ADDR_V4MAPPED(&ip) && ip.s6_addr[12] == IN_LOOPBACKNET);
}

bool PostgresConnection::Intact() {
  if (transaction_ != nullptr || sent_ || !connection_->libpqxx().is_open()) broken_ = true;
  return !broken_;
}

bool PostgresConnection::Usable() {
  // Data on an idle connection is the server's final message, then end of file.
  while (Intact() && connection_->HasUnreadInput()) {
    Attempt([this] { connection_->libpqxx().get_notifs(); });
  }
  return !broken_;
}

absl::StatusOr<PostgresResult> PostgresConnection::Execute(const PostgresStatement& statement,
                                                           const PostgresParameters& parameters,
                                                           absl::Duration time_limit) {
  if (parameters.has_nulls() && transaction_ != nullptr) {
    return absl::InternalError("NULL within a transaction needs ExecuteEach");
  }
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<PostgresResult> answer =
        sent_ ? Receive(statement) : ExecuteNow(statement, parameters, time_limit);
    if (answer.status().code() != absl::StatusCode::kAborted) return answer;
    if (transaction_ != nullptr || attempt == kMaxAttempts) {
      return absl::UnavailableError(
          "postgres cancelled the statement because of another transaction");
    }
  }
}

absl::StatusOr<PostgresResult> PostgresConnection::ExecuteNow(const PostgresStatement& statement,
                                                              const PostgresParameters& parameters,
                                                              absl::Duration time_limit) {
  if (transaction_ != nullptr) return ExecuteInTransaction(statement, parameters, time_limit);
  PipelinedOutcome outcome;
  const auto run = [&] {
    connection_->Prepare(statement.name, statement.sql);
    if (connection_->Send(statement.name, parameters.Nullable(), statement.results)) {
      outcome = connection_->Receive();
    }
  };
  const Outcome attempt = Attempt(run, time_limit);
  if (!attempt.state.empty()) return ToStatus(attempt);  // it could not be prepared
  LogFailures(absl::MakeConstSpan(&outcome, 1), LockWait::kFull);
  absl::StatusOr<PostgresResult> answer = ToAnswer(outcome);
  if (answer.ok()) executed_.insert(statement.name);
  return answer;
}

absl::StatusOr<PostgresResult> PostgresConnection::ExecuteInTransaction(
    const PostgresStatement& statement, const PostgresParameters& parameters,
    absl::Duration time_limit) {
  pqxx::result rows;
  const auto run = [&] {
    connection_->Prepare(statement.name, statement.sql);
    rows = ExecutePrepared(*transaction_, statement.name, parameters.values());
  };
  const absl::Status status = ToStatus(Attempt(run, time_limit));
  if (!status.ok()) return status;
  executed_.insert(statement.name);
  return PostgresResult(rows);
}

bool PostgresConnection::Send(const PostgresStatement& statement,
                              const PostgresParameters& parameters) {
  std::size_t bytes = 0;
  for (const std::string& value : parameters.values()) bytes += value.size();
  if (bytes > kMaxSentBytes || sent_ || !executed_.contains(statement.name) || !Usable()) {
    return false;
  }
  sent_ = Sent{statement.name, connection_->Watch(reply_timeout_)};
  if (connection_->Send(statement.name, parameters.Nullable(), statement.results)) return true;
  sent_.reset();
  broken_ = true;
  return false;
}

absl::StatusOr<PostgresResult> PostgresConnection::Receive(const PostgresStatement& statement) {
  const Sent sent = *std::exchange(sent_, std::nullopt);
  if (sent.statement != statement.name) {
    // The answer of one statement must never count as that of another.
    broken_ = true;
    return absl::UnavailableError("another statement was sent");
  }
  const PipelinedOutcome outcome =
      connection_->ReadArrived() ? connection_->Receive() : PipelinedOutcome();
  LogFailures(absl::MakeConstSpan(&outcome, 1), LockWait::kFull);
  if (sent.watch->expired()) {
    spdlog::warn("postgres: no answer within {} ms; the session is abandoned",
                 absl::ToInt64Milliseconds(reply_timeout_));
    broken_ = true;
  }
  return ToAnswer(outcome);
}

std::vector<absl::StatusOr<PostgresResult>> PostgresConnection::ExecuteEach(
    const PostgresStatement& statement, absl::Span<const PostgresParameters> executions,
    LockWait lock_wait) {
  Pipelines pipelines{statement, executions, {}};
  pipelines.answers.resize(executions.size(), absl::UnknownError("not executed"));
  Indices all(executions.size());
  std::iota(all.begin(), all.end(), 0);
  // A lock that is met in a transaction ends it.
  if (transaction_ != nullptr || (executions.size() == 1 && lock_wait == LockWait::kFull)) {
    ExecuteSome(pipelines, all, LockWait::kFull);
    return std::move(pipelines.answers);
  }
  Indices locked = ExecuteSome(pipelines, all, LockWait::kBrief);
  if (lock_wait == LockWait::kFull) WaitForLocks(pipelines, std::move(locked));
  return std::move(pipelines.answers);
}

PostgresConnection::Indices PostgresConnection::ExecuteSome(Pipelines& pipelines,
                                                            const Indices& indices,
                                                            LockWait lock_wait) {
  Indices locked;
  int ended = 0;
  for (std::size_t begin = 0; begin < indices.size(); begin += kPipelined) {
    const absl::Span<const std::size_t> some =
        absl::MakeConstSpan(indices).subspan(begin, kPipelined);
    const bool stops = ended >= kMaxLockWaits || locked.size() >= kPipelined;
    for (const std::size_t index : some) {
      pipelines.answers[index] =
          stops ? absl::CancelledError("not sent: too many rows before it are locked")
                : absl::UnavailableError("the session was lost before the statement");
    }
    if (stops) continue;
    Indices left(some.begin(), some.end());
    const int attempts = transaction_ == nullptr ? kMaxAttempts : 1;
    for (int attempt = 0; attempt < attempts && !left.empty() && !broken_; ++attempt) {
      left = ExecuteOnce(pipelines, left, lock_wait);
    }
    for (const std::size_t index : some) {
      const absl::Status& status = pipelines.answers[index].status();
      if (absl::IsDeadlineExceeded(status)) locked.push_back(index);
      if (absl::IsCancelled(status)) ++ended;
      if (absl::IsAborted(status)) {
        pipelines.answers[index] = absl::UnavailableError(
            "postgres cancelled the statement because of another transaction");
      }
    }
  }
  return locked;
}

void PostgresConnection::WaitForLocks(Pipelines& pipelines, Indices locked) {
  const auto begin = std::chrono::steady_clock::now();
  bool is_last = false;
  while (!locked.empty() && !is_last) {
    ExecuteSome(pipelines, {locked.front()}, LockWait::kFull);
    locked.erase(locked.begin());
    is_last = absl::FromChrono(std::chrono::steady_clock::now() - begin) >= lock_timeout_;
    locked = ExecuteSome(pipelines, locked, LockWait::kBrief);
  }
  if (locked.empty()) return;
  spdlog::warn("postgres: {} further statements failed, SQLSTATE {}", locked.size(),
               kLockNotAvailable);
}

absl::StatusOr<PostgresResult> PostgresConnection::ExecuteOne(
    const PostgresStatement& statement, const PostgresParameters& parameters) {
  return ExecuteEach(statement, {parameters}).front();
}

PostgresConnection::Indices PostgresConnection::ExecuteOnce(Pipelines& pipelines,
                                                            const Indices& indices,
                                                            LockWait lock_wait) {
  const bool briefly = lock_wait == LockWait::kBrief;
  const PostgresStatement& statement = pipelines.statement;
  const Outcome prepared = Attempt([&] {
    connection_->Prepare(statement.name, statement.sql);
    if (!briefly) return;
    connection_->Prepare(wait_briefly_.name, wait_briefly_.sql);
    connection_->Prepare(wait_fully_.name, wait_fully_.sql);
  });
  if (!prepared.state.empty() || broken_) {
    const absl::Status failure = prepared.state.empty()
                                     ? absl::UnavailableError("the session was lost")
                                     : ToStatus(prepared);
    for (const std::size_t index : indices) pipelines.answers[index] = failure;
    return {};
  }
  std::vector<PipelinedExecution> executions;
  executions.reserve(indices.size() + 2);
  if (briefly) executions.push_back({&wait_briefly_.name, {}, wait_briefly_.results});
  for (const std::size_t index : indices) {
    executions.push_back(
        {&statement.name, pipelines.executions[index].Nullable(), statement.results});
  }
  if (briefly) executions.push_back({&wait_fully_.name, {}, wait_fully_.results});
  const std::vector<PipelinedOutcome> outcomes = RunPipeline(executions);
  LogFailures(outcomes, lock_wait);
  // The next statement of such a session would wait for another time.
  const auto is_done = [](const PipelinedOutcome& set) { return !set.lost && set.state.empty(); };
  if (briefly && !(is_done(outcomes.front()) && is_done(outcomes.back()))) broken_ = true;
  Indices again;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const PipelinedOutcome& outcome = outcomes[briefly ? i + 1 : i];
    absl::StatusOr<PostgresResult>& answer = pipelines.answers[indices[i]];
    answer = outcome.state == kQueryCanceled
                 ? absl::CancelledError("the server ended the statement")
                 : ToAnswer(outcome);
    if (absl::IsAborted(answer.status())) again.push_back(indices[i]);
  }
  return again;
}

// A server that ends the wait for a lock answers: those behind that statement have the whole time.
// The nodes of a distributed server have no lock timeout: a few waits end with their statements.
std::vector<PipelinedOutcome> PostgresConnection::RunPipeline(
    absl::Span<const PipelinedExecution> executions) {
  const std::unique_ptr<SocketWatchdog::Watch> watch = connection_->Watch(reply_timeout_);
  int ended = 0;
  std::vector<PipelinedOutcome> outcomes =
      connection_->ExecutePipelined(executions, [&](const PipelinedOutcome& outcome) {
        const bool few = outcome.state == kQueryCanceled && ++ended < kMaxLockWaits;
        if (outcome.state != kLockNotAvailable && !few) return;
        watch->Renew(std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(reply_timeout_));
      });
  if (watch->expired()) {
    spdlog::warn("postgres: no answer within {} ms; the session is abandoned",
                 absl::ToInt64Milliseconds(reply_timeout_));
    broken_ = true;
  }
  if (!connection_->libpqxx().is_open()) broken_ = true;
  return outcomes;
}

absl::StatusOr<PostgresResult> PostgresConnection::ToAnswer(const PipelinedOutcome& outcome) {
  if (outcome.lost) {
    broken_ = true;
    return absl::UnavailableError("the session was lost during the statement");
  }
  if (!outcome.state.empty()) return FailureOf(StateOf(outcome));
  if (outcome.unconfirmed) {
    return absl::UnavailableError("the synchronous standby did not confirm");
  }
  return PostgresResult(outcome.rows);
}

std::string PostgresConnection::TryPrepare(const PostgresStatement& statement) {
  return Attempt([&] { connection_->Prepare(statement.name, statement.sql); }).state;
}

absl::StatusOr<PostgresResult> PostgresConnection::ExecuteScript(const std::string& sql) {
  pqxx::result rows;
  const Outcome outcome =
      AttemptIn([&](pqxx::transaction_base& transaction) { rows = transaction.exec(sql); });
  const absl::Status status = ToStatus(outcome);
  if (status.ok()) return PostgresResult(rows);
  return absl::Status(status.code(), absl::StrCat(outcome.message, " (", status.message(), ")"));
}

absl::Status PostgresConnection::SetStatementTimeout(absl::Duration timeout) {
  const auto set =
      ExecuteScript(absl::StrCat("SET statement_timeout TO ", absl::ToInt64Milliseconds(timeout)));
  if (set.ok()) reply_timeout_ = timeout + reply_grace_;
  return set.status();
}

absl::StatusOr<PostgresResult> PostgresConnection::ExecuteScriptWithin(
    const std::string& sql, absl::Duration statement_timeout) {
  const absl::Duration usual = reply_timeout_ - reply_grace_;
  if (absl::Status set = SetStatementTimeout(statement_timeout); !set.ok()) return set;
  absl::StatusOr<PostgresResult> answer = ExecuteScript(sql);
  if (!SetStatementTimeout(usual).ok()) broken_ = true;
  return answer;
}

absl::Status PostgresConnection::Begin() {
  return ToStatus(
      Attempt([this] { transaction_ = std::make_unique<pqxx::work>(connection_->libpqxx()); }));
}

absl::Status PostgresConnection::Commit() {
  return ToStatus(Attempt([this] {
    // Ends here even if this throws, so that the statements of its end are
    // watched too.
    const std::unique_ptr<pqxx::dbtransaction> ending = std::move(transaction_);
    ending->commit();
  }));
}

absl::Status PostgresConnection::Rollback() {
  return ToStatus(Attempt([this] {
    const std::unique_ptr<pqxx::dbtransaction> ending = std::move(transaction_);
    ending->abort();
  }));
}

PostgresConnection::Outcome PostgresConnection::AttemptIn(
    absl::FunctionRef<void(pqxx::transaction_base&)> call) {
  return Attempt([&] {
    if (transaction_ != nullptr) return call(*transaction_);
    pqxx::nontransaction alone(connection_->libpqxx());
    call(alone);
  });
}

PostgresConnection::Outcome PostgresConnection::Attempt(absl::FunctionRef<void()> call,
                                                        absl::Duration time_limit) {
  connection_->TakeUnconfirmedCommit();
  const absl::Duration limit = std::min(reply_timeout_, time_limit);
  Outcome outcome;
  const bool in_time = connection_->Watched(limit, [&] {
    try {
      call();
    } catch (const std::exception& failure) {
      outcome.state = std::string(StateOf(failure));
      outcome.message = PrimaryMessage(failure.what(), outcome.state);
    }
  });
  if (!in_time) {
    spdlog::warn("postgres: no answer within {} ms; the session is abandoned",
                 absl::ToInt64Milliseconds(limit));
  }
  if (!in_time || outcome.state == kConnectionFailure || !connection_->libpqxx().is_open()) {
    broken_ = true;
  }
  return outcome;
}

// A line for each kind, not for each statement: a node that is away fails its part of every
// pipeline. A lock that is met briefly is no failure.
void PostgresConnection::LogFailures(absl::Span<const PipelinedOutcome> outcomes,
                                     LockWait lock_wait) const {
  std::map<std::string, int> failed;
  int unconfirmed = 0;
  int lost = 0;
  for (const PipelinedOutcome& outcome : outcomes) {
    if (outcome.lost) ++lost;
    if (!outcome.lost && !outcome.state.empty()) ++failed[StateOf(outcome)];
    if (outcome.unconfirmed) ++unconfirmed;
  }
  if (lock_wait == LockWait::kBrief) failed.erase(std::string(kLockNotAvailable));
  if (in_search_) {
    for (const std::string_view state : kUnreadableStates) failed.erase(std::string(state));
  }
  for (const auto& [state, count] : failed) {
    spdlog::warn("postgres: {} of {} statements failed, SQLSTATE {}", count, outcomes.size(),
                 state);
  }
  if (lost > 0) spdlog::warn("postgres: the session was lost during {} statements", lost);
  if (unconfirmed > 0) {
    spdlog::warn("postgres: {} commits were not confirmed by the synchronous standby", unconfirmed);
  }
}

absl::Status PostgresConnection::ToStatus(const Outcome& outcome) {
  const std::string& state = outcome.state;
  if (state.empty()) {
    if (!connection_->TakeUnconfirmedCommit()) return absl::OkStatus();
    spdlog::warn("postgres: a commit was not confirmed by the synchronous standby");
    return absl::UnavailableError("the synchronous standby did not confirm");
  }
  spdlog::warn("postgres: statement failed, SQLSTATE {}", state);
  return FailureOf(state);
}

absl::Status PostgresConnection::FailureOf(const std::string& state) {
  if (state == kInsufficientPrivilege) {
    spdlog::error(
        "postgres: the role lacks a privilege; run `idempotencyd migrate --create_roles`, and see "
        "docs/roles.md");
  }
  if (state == kSerializationFailure || state == kDeadlockDetected) {
    return absl::AbortedError("another transaction conflicted");
  }
  if (state == kLockNotAvailable) return absl::DeadlineExceededError("locked by another session");
  // A server that turned into a standby, or a proxy that swapped the connection.
  if (state == kReadOnlyTransaction || state == kUnknownPreparedStatement) broken_ = true;
  const std::string text = TextOf(state);
  if (StartsWith(state, "22") || StartsWith(state, "54")) return absl::InvalidArgumentError(text);
  if (StartsWith(state, "23")) return absl::InternalError(text);
  if (state == kDataCorrupted || state == kIndexCorrupted) return absl::DataLossError(text);
  return absl::UnavailableError(text);
}

bool IsInsufficientResources(const absl::Status& failure) {
  return absl::StartsWith(failure.message(), TextOf(kInsufficientResources));
}

bool IsMediaFailure(const absl::Status& failure) {
  if (!absl::IsUnavailable(failure)) return false;
  return failure.message() == TextOf(kIoError) || failure.message() == TextOf(kUndefinedFile) ||
         failure.message() == TextOf(kInternalErrorOfStorage);
}

bool IsUnreadable(const absl::Status& failure) {
  return absl::IsDataLoss(failure) || IsMediaFailure(failure);
}

}  // namespace idempotency::internal
