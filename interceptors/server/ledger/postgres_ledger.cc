#include "grpc_idempotency/ledger/postgres_ledger.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

#include "core/clock.h"
#include "core/database_connection_pool.h"
#include "grpc_idempotency/errors.h"
#include "interceptors/server/log/guard_log.h"
#include "postgres/conninfo_builder.h"
#include "postgres/direct_connection.h"
#include "postgres/libpqxx.h"
#include "postgres/socket_watchdog.h"
#include "postgres/watched_connection.h"

namespace idempotency {

using internal::BinaryParameter;
using internal::ByteaOf;
using internal::Clock;
using internal::ConninfoBuilder;
using internal::DatabaseConnectionPool;
using internal::DatabaseConnectionPoolOptions;
using internal::ExecuteWith;
using internal::GuardLog;
using internal::IsDirect;
using internal::kServerProcessQuery;
using internal::LogEvent;
using internal::PostgresNotices;
using internal::SocketWatchdog;
using internal::WatchedConnection;

namespace {

// The key is UTF-8, in whatever encoding the application's session has its texts.
constexpr char kInsert[] =
    "INSERT INTO idempotency_completions (record_id, namespace, scope, operation, key,"
    " fingerprints, attempt, reply, reply_digest, created_at, sweepable_at)"
    " SELECT $1::uuid, convert_from($2::bytea, 'UTF8'), convert_from($3::bytea, 'UTF8'),"
    " convert_from($4::bytea, 'UTF8'), convert_from($5::bytea, 'UTF8'), $6::bytea, $7::bigint, "
    "$8::bytea, $9::bytea, t.now,"
    " t.now + $10::bigint * interval '1 microsecond' FROM clock_timestamp() AS t(now)"
    // The result of its commit is trusted without a query for the row: the commit waits until
    // it is durable, and reports if the standby did not confirm it.
    " RETURNING CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')"
    " THEN set_config('synchronous_commit', 'on', true) END,"
    " CASE WHEN current_setting('client_min_messages') = 'error'"
    " THEN set_config('client_min_messages', 'warning', true) END";

// Always returns one row, so that a replica cannot look like an empty ledger.
//
// A row can be visible although its commit's wait for a synchronous standby was interrupted,
// and a failover would remove it with its effects. So if commits wait for a standby, a lookup
// that finds a row writes a message to the WAL, and its own commit waits until everything that
// it saw is on the standby too.
constexpr char kFind[] =
    "SELECT pg_is_in_recovery(), c.record_id IS NOT NULL, c.namespace, c.scope, c.operation,"
    " c.key, c.fingerprints, c.attempt, c.reply, c.reply_digest,"
    " (extract(epoch FROM c.created_at) * 1000000)::bigint,"
    " CASE WHEN c.record_id IS NOT NULL THEN ("
    "SELECT pg_logical_emit_message(true, 'idempotency', '') IS NOT NULL"
    " WHERE current_setting('synchronous_standby_names') <> '') END"
    " FROM (VALUES (1)) AS always LEFT JOIN idempotency_completions c ON c.record_id = $1::uuid";

// Each column that is used, and the number of keys that stop a second row of one id at the
// INSERT itself. A deferrable key would not: it is checked at the commit.
constexpr char kCheckColumns[] =
    "SELECT record_id, namespace, scope, operation, key, fingerprints, attempt, reply,"
    " reply_digest, created_at, sweepable_at FROM idempotency_completions LIMIT 0";
constexpr char kCheckKey[] =
    "SELECT count(*) FROM pg_index i JOIN pg_attribute a"
    " ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
    " WHERE i.indrelid = 'idempotency_completions'::regclass AND a.attname = 'record_id'"
    " AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indnkeyatts = 1"
    " AND i.indpred IS NULL AND i.indexprs IS NULL";

absl::Status RowNotWritten() {
  return MakeError(Reason::kStoreUnavailable,
                   "the completion ledger's row could not be written: nothing may be committed");
}

absl::Status Unreachable() {
  return MakeError(Reason::kStoreUnavailable, "the completion ledger's database did not answer");
}

absl::Status ThroughPooler() {
  return absl::FailedPreconditionError(
      "the completion ledger's connection goes through a pooler, such as pgbouncer: its lookups "
      "could run without their settings, and the statements of other clients with them. Give "
      "PostgresLedgerOptions.conninfo the server itself; handlers may use the pooler");
}

// libpqxx reports the commit of a transaction with a failed statement as a success, though the
// server has rolled it back: 7 and later always, 6.4 if the statement had parameters.

// Makes a later commit throw, for a caller that ignores the error.
void RefuseCommit(pqxx::transaction_base& transaction) {
  try {
    transaction.abort();
  } catch (const std::exception&) {
    // It is committed already.
  }
}

// Throws if a statement has failed and the caller ignored it.
void CheckMayCommit(pqxx::transaction_base& transaction) { transaction.exec("SELECT 1"); }

bool IsUndoneAsAWhole(const pqxx::transaction_base& transaction) {
  return dynamic_cast<const pqxx::dbtransaction*>(&transaction) != nullptr &&
         dynamic_cast<const pqxx::subtransaction*>(&transaction) == nullptr;
}

// nullopt if libpq cannot parse the given string.
std::optional<std::string> Conninfo(const PostgresLedgerOptions& options) {
  ConninfoBuilder builder;
  builder.SetSeconds("connect_timeout", options.connect_timeout);
  builder.Set("application_name", "idempotency-ledger");
  if (!builder.SetAll(options.conninfo)) return std::nullopt;
  builder.Set("target_session_attrs", "read-write");
  builder.Set("client_encoding", "UTF8");
  return builder.conninfo();
}

template <typename Row>
absl::StatusOr<std::optional<LedgerEntry>> ToEntry(const Row& row) {
  if (!row[1].template as<bool>()) return std::nullopt;
  EncodedReply reply;
  reply.bytes = ByteaOf(row[8]);
  const std::string digest = ByteaOf(row[9]);
  std::copy_n(digest.begin(), std::min(digest.size(), reply.digest.size()), reply.digest.begin());
  absl::StatusOr<LedgerEntry> entry = LedgerEntry::Decode(
      {row[2].template as<std::string>(), row[3].template as<std::string>(),
       row[4].template as<std::string>(), row[5].template as<std::string>()},
      ByteaOf(row[6]), static_cast<std::uint32_t>(row[7].template as<std::int64_t>()), reply,
      absl::FromUnixMicros(row[10].template as<std::int64_t>()));
  if (!entry.ok()) return entry.status();
  return *std::move(entry);
}

// Detects any notice that the server sends in addition to its answer. Other handlers still receive
// the notice.
class AnyNotice : public PostgresNotices {
 public:
  using PostgresNotices::PostgresNotices;
  bool operator()(const char /*message*/[]) noexcept override {
    seen = true;
    return true;
  }
  bool seen = false;
};

// One session that only reads and sweeps. Thread-compatible.
class Session {
 public:
  // Throws.
  Session(const std::string& conninfo, const PostgresLedgerOptions& options,
          SocketWatchdog& watchdog)
      // The server's timeout expires first, which keeps the session intact.
      : reply_timeout_(options.statement_timeout + absl::Milliseconds(500)),
        session_(conninfo, watchdog) {}

  // FAILED_PRECONDITION for a pooler, whose sessions are not changed: they are also those of other
  // clients. Throws.
  absl::Status SetUp(const PostgresLedgerOptions& options) {
    bool direct = false;
    Execute([&](pqxx::transaction_base& transaction) {
      direct = IsDirect(session_.libpqxx(), transaction.exec(kServerProcessQuery)[0][0].as<int>());
      if (!direct) return;
      transaction.exec(absl::StrCat(
          "SET statement_timeout TO ", absl::ToInt64Milliseconds(options.statement_timeout),
          ";SET default_transaction_isolation TO 'read committed'"
          // An interrupted wait for a standby is reported by a warning alone.
          ";SET client_min_messages TO warning"
          // The server's log is no place for keys and replies.
          ";SET log_parameter_max_length_on_error TO 0"
          // So that a lookup waits for the standby, with any default.
          ";SELECT set_config('synchronous_commit', 'on', false)"
          " WHERE current_setting('synchronous_commit') <> 'remote_apply'"));
    });
    return direct ? absl::OkStatus() : ThroughPooler();
  }

  // Runs `call` with a separate transaction for each statement; throws its exceptions. After
  // any failure the session is not used again.
  void Run(absl::FunctionRef<void(pqxx::transaction_base&)> call) {
    broken_ = true;
    Execute(call);
    if (session_.TakeUnconfirmedCommit()) {
      throw pqxx::failure("the synchronous standby did not confirm");
    }
    broken_ = false;
  }

  // Checked by the pool. Data from the server on an idle session means that it is closing.
  bool Usable() { return Intact() && !session_.HasUnreadInput(); }
  bool Intact() { return !broken_ && session_.libpqxx().is_open(); }

 private:
  void Execute(absl::FunctionRef<void(pqxx::transaction_base&)> call) {
    session_.Watched(reply_timeout_, [&] {
      pqxx::nontransaction alone(session_.libpqxx());
      call(alone);
    });
  }

  const absl::Duration reply_timeout_;
  WatchedConnection session_;
  bool broken_ = false;
};

absl::Status CheckTable(Session& session) {
  pqxx::result keys;
  try {
    session.Run([&](pqxx::transaction_base& transaction) {
      transaction.exec(kCheckColumns);
      keys = transaction.exec(kCheckKey);
    });
  } catch (const pqxx::undefined_table&) {
    return absl::FailedPreconditionError(
        "there is no table idempotency_completions on this role's search_path: apply "
        "interceptors/server/ledger/migrations/postgres to the application's database");
  } catch (const pqxx::undefined_column&) {
    return absl::FailedPreconditionError(
        "the table idempotency_completions does not match this version: apply "
        "interceptors/server/ledger/migrations/postgres to the application's database");
  } catch (const pqxx::insufficient_privilege&) {
    return absl::FailedPreconditionError("this role needs SELECT on idempotency_completions");
  }
  if (keys[0][0].as<int>() > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "idempotency_completions has no immediate unique key on record_id alone, so nothing would "
      "prevent a second effect: create it as interceptors/server/ledger/migrations/postgres does");
}

}  // namespace

absl::Status InsertLedgerRow(pqxx::transaction_base& transaction,
                             const absl::StatusOr<LedgerRow>& row) {
  if (!IsUndoneAsAWhole(transaction)) {
    return absl::FailedPreconditionError(
        "RecordInTransaction needs the outermost transaction (pqxx::work), whose abort undoes "
        "every effect");
  }
  if (!row.ok()) {
    RefuseCommit(transaction);
    return row.status();
  }
  const auto digest = reinterpret_cast<const char*>(row->reply.digest.data());
  const LogSink log = GuardLog::SinkOr(row->log, LogEvent::kLedgerRowNotWritten);
  try {
    ExecuteWith(transaction, kInsert, row->record_id.ToString(),
                BinaryParameter(row->record_key.name_space), BinaryParameter(row->record_key.scope),
                BinaryParameter(row->record_key.operation), BinaryParameter(row->record_key.key),
                BinaryParameter(row->fingerprints), row->attempt, BinaryParameter(row->reply.bytes),
                BinaryParameter({digest, row->reply.digest.size()}),
                absl::ToInt64Microseconds(row->life));
    return absl::OkStatus();
  } catch (const pqxx::unique_violation&) {
    RefuseCommit(transaction);
    return MakeErrorWithCode(Reason::kReservationLost, absl::StatusCode::kAborted,
                             "another attempt has committed this operation: call again with the "
                             "same idempotency key for its reply");
  } catch (const pqxx::sql_error& failure) {
    log(LogSeverity::kWarning,
        absl::StrCat("ledger: the row could not be written, SQLSTATE ", failure.sqlstate()));
  } catch (const std::exception&) {
    log(LogSeverity::kWarning, "ledger: the row could not be written, the session is lost");
  }
  RefuseCommit(transaction);
  return RowNotWritten();
}

LedgerCommit CommitLedgerTransaction(pqxx::transaction_base& transaction,
                                     const LedgerCommitPermit& permit) {
  if (!permit.status.ok()) {
    RefuseCommit(transaction);
    return LedgerCommit::NotCommitted(permit.status);
  }
  const LogSink log = GuardLog::SinkOr(permit.log, LogEvent::kLedgerRowNotWritten);
  try {
    CheckMayCommit(transaction);
    AnyNotice notice(transaction.conn());
    transaction.commit();
    return notice.seen ? LedgerCommit::Unconfirmed() : LedgerCommit::Committed();
  } catch (const pqxx::in_doubt_error&) {
    log(LogSeverity::kWarning, "ledger: the connection was lost during a commit");
  } catch (const pqxx::sql_error& failure) {
    log(LogSeverity::kWarning,
        absl::StrCat("ledger: a commit failed, SQLSTATE ", failure.sqlstate()));
    return LedgerCommit::NotCommitted();
  } catch (const std::exception&) {
    log(LogSeverity::kWarning, "ledger: a commit failed, the session is lost");
  }
  return LedgerCommit::InDoubt();
}

// The pool, and the objects that outlive its sessions.
class PostgresLedger::Sessions {
 public:
  Sessions(std::string conninfo, const PostgresLedgerOptions& options)
      : conninfo_(std::move(conninfo)),
        options_(options),
        log_(options.log),
        pool_(PoolOptions(options), Clock::System(), [this] { return Connect(); }) {}

  // UNAVAILABLE unless `call` succeeded.
  absl::Status Run(absl::FunctionRef<void(pqxx::transaction_base&)> call) {
    auto session = pool_.Acquire();
    if (!session.ok()) return session.status();
    try {
      (*session)->Run(call);
      return absl::OkStatus();
    } catch (const pqxx::sql_error& failure) {
      log_.Warn(LogEvent::kLedgerUnavailable, "ledger: a query failed, SQLSTATE ",
                failure.sqlstate());
    } catch (const std::exception&) {
      log_.Warn(LogEvent::kLedgerUnavailable, "ledger: the session is lost");
    }
    return Unreachable();
  }

  absl::Status Check() {
    auto session = pool_.Acquire();
    if (!session.ok()) return through_pooler_ ? ThroughPooler() : session.status();
    try {
      return CheckTable(**session);
    } catch (const std::exception&) {
      return Unreachable();
    }
  }

 private:
  static DatabaseConnectionPoolOptions PoolOptions(const PostgresLedgerOptions& options) {
    DatabaseConnectionPoolOptions pool;
    pool.size = options.connections;
    return pool;
  }

  absl::StatusOr<std::unique_ptr<Session>> Connect() {
    try {
      auto session = std::make_unique<Session>(conninfo_, options_, watchdog_);
      const absl::Status set_up = session->SetUp(options_);
      if (set_up.ok()) return session;
      through_pooler_ = true;
      log_.Warn(LogEvent::kLedgerUnavailable, "ledger: ", set_up.message());
      return set_up;
    } catch (const std::exception& failure) {
      // libpq's message contains host, port, user and database; never the password.
      log_.Warn(LogEvent::kLedgerUnavailable, "ledger: cannot connect: ", failure.what());
      return absl::UnavailableError("cannot connect to the completion ledger's database");
    }
  }

  const std::string conninfo_;
  const PostgresLedgerOptions options_;
  GuardLog log_;
  SocketWatchdog watchdog_;
  // A connection was refused for this, which the pool does not pass on.
  std::atomic<bool> through_pooler_{false};
  DatabaseConnectionPool<Session> pool_;
};

absl::StatusOr<std::unique_ptr<PostgresLedger>> PostgresLedger::Open(
    const PostgresLedgerOptions& options) {
  if (options.connections < 1 || options.connect_timeout <= absl::ZeroDuration() ||
      options.statement_timeout < absl::Milliseconds(1)) {
    return absl::InvalidArgumentError(
        "PostgresLedgerOptions: connections must be at least 1, connect_timeout over 0, and "
        "statement_timeout at least 1 ms");
  }
  std::optional<std::string> conninfo = Conninfo(options);
  if (!conninfo.has_value()) {
    return absl::InvalidArgumentError("PostgresLedgerOptions.conninfo cannot be read by libpq");
  }
  auto sessions = std::make_unique<Sessions>(*std::move(conninfo), options);
  if (const absl::Status checked = sessions->Check(); !checked.ok()) return checked;
  return std::unique_ptr<PostgresLedger>(new PostgresLedger(std::move(sessions)));
}

PostgresLedger::PostgresLedger(std::unique_ptr<Sessions> sessions)
    : sessions_(std::move(sessions)) {}

PostgresLedger::~PostgresLedger() = default;

absl::StatusOr<std::optional<LedgerEntry>> PostgresLedger::Find(const RecordId& record_id) {
  absl::StatusOr<std::optional<LedgerEntry>> found = Unreachable();
  const absl::Status queried = sessions_->Run([&](pqxx::transaction_base& transaction) {
    const pqxx::result rows = ExecuteWith(transaction, kFind, record_id.ToString());
    // For example a primary that became a replica. The session is not used again.
    if (rows[0][0].as<bool>()) throw pqxx::failure("the server does not accept writes");
    found = ToEntry(rows[0]);
  });
  if (!queried.ok()) return queried;
  return found;
}

absl::StatusOr<std::int64_t> PostgresLedger::Sweep(int batch_rows) {
  std::int64_t swept = 0;
  const absl::Status queried = sessions_->Run([&](pqxx::transaction_base& transaction) {
    swept = ExecuteWith(transaction, "SELECT idempotency_sweep_completions($1::integer)",
                        batch_rows)[0][0]
                .as<std::int64_t>();
  });
  if (!queried.ok()) return queried;
  return swept;
}

}  // namespace idempotency
