#include "server/store/postgres_connection.h"

#include <poll.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"

namespace idempotency {
namespace {

// SQLSTATEs: https://www.postgresql.org/docs/current/errcodes-appendix.html
constexpr std::string_view kSerializationFailure = "40001";
constexpr std::string_view kDeadlockDetected = "40P01";
constexpr std::string_view kReadOnlyTransaction = "25006";
constexpr std::string_view kUnknownPreparedStatement = "26000";
constexpr std::string_view kNoState = "";

// Deadlocks cannot come from this store alone (ids are sorted); another
// writer's, say a VACUUM FULL, is over soon.
constexpr int kMaxAttempts = 4;

std::string_view StateOf(const PGresult* result) {
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  return state == nullptr ? kNoState : std::string_view(state);
}

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool Succeeded(const PGresult* result) {
  const ExecStatusType status = PQresultStatus(result);
  return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

std::string Seconds(absl::Duration duration) {
  return absl::StrCat(
      std::max<std::int64_t>(absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1))), 2));
}

std::string Millis(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(duration));
}

PGconn* Connect(const PostgresOptions& options) {
  const std::string connect_timeout = Seconds(options.connect_timeout);
  const std::string user_timeout = Millis(options.statement_timeout + options.reply_grace);
  // In order: what stands before dbname is a default, what the URL says wins,
  // what stands after is ours.
  const std::array<std::pair<const char*, const char*>, 10> settings = {{
      {"connect_timeout", connect_timeout.c_str()},
      {"target_session_attrs", "read-write"},
      {"application_name", "idempotencyd"},
      {"keepalives_idle", "10"},
      {"keepalives_interval", "5"},
      {"keepalives_count", "3"},
      {"tcp_user_timeout", user_timeout.c_str()},
      {"dbname", options.url.c_str()},
      {"client_encoding", "UTF8"},
      {nullptr, nullptr},
  }};
  std::array<const char*, settings.size()> keywords;
  std::array<const char*, settings.size()> values;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    keywords[i] = settings[i].first;
    values[i] = settings[i].second;
  }
  return PQconnectdbParams(keywords.data(), values.data(), /*expand_dbname=*/1);
}

std::string SessionSettings(const PostgresOptions& options) {
  // Statements of this store read few rows by primary key, always. On a table
  // that was analysed while it was small the planner thinks otherwise, and
  // throughput falls to a quarter.
  return absl::StrCat("SET search_path TO ", options.schema, ";SET statement_timeout TO ",
                      Millis(options.statement_timeout),
                      ";SET default_transaction_isolation TO 'read committed'"
                      ";SET plan_cache_mode TO force_generic_plan"
                      ";SET enable_seqscan TO off;SET enable_hashjoin TO off"
                      ";SET enable_mergejoin TO off;SET enable_bitmapscan TO off"
                      ";SET jit TO off;SET timezone TO 'UTC'");
}

}  // namespace

PostgresConnection::PostgresConnection(PGconn* connection, const PostgresOptions& options)
    : connection_(connection),
      reply_timeout_(absl::ToChronoMilliseconds(options.statement_timeout + options.reply_grace)) {}

absl::StatusOr<std::unique_ptr<PostgresConnection>> PostgresConnection::Open(
    const PostgresOptions& options) {
  std::unique_ptr<PostgresConnection> opened(
      new PostgresConnection(Connect(options), options));  // its constructor is private
  PGconn* const raw = opened->connection_.get();
  if (raw == nullptr || PQstatus(raw) != CONNECTION_OK) {
    // libpq's text names host, port, user and database; never the password.
    spdlog::warn("postgres: cannot connect: {}",
                 raw == nullptr ? "out of memory" : PQerrorMessage(raw));
    return absl::UnavailableError("cannot connect to postgres");
  }
  PQsetNoticeReceiver(raw, &PostgresConnection::OnNotice, opened.get());
  PQsetnonblocking(raw, 1);
  if (absl::Status status = opened->SetUpSession(options); !status.ok()) return status;
  return opened;
}

absl::Status PostgresConnection::SetUpSession(const PostgresOptions& options) {
  if (auto set = ExecuteScript(SessionSettings(options)); !set.ok()) return set.status();
  // Makes the warning about a standby readable, where the role may set it; it
  // is recognised by its origin otherwise.
  return ExecuteScript(
             "SELECT set_config('lc_messages', 'C', false) FROM pg_roles"
             " WHERE rolname = current_user AND rolsuper")
      .status();
}

void PostgresConnection::OnNotice(void* self, const PGresult* notice) {
  const char* const origin = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
  const char* const message = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
  const bool standby =
      (origin != nullptr && std::strcmp(origin, "SyncRepWaitForLSN") == 0) ||
      (message != nullptr && std::strstr(message, "synchronous replication") != nullptr);
  if (standby) static_cast<PostgresConnection*>(self)->unconfirmed_ = true;
}

bool PostgresConnection::Usable() {
  if (broken_ || PQstatus(connection_.get()) != CONNECTION_OK) return false;
  pollfd socket = {PQsocket(connection_.get()), POLLIN, 0};
  // Something to read from an idle session is a farewell, or end of file.
  if (poll(&socket, 1, 0) > 0 && PQconsumeInput(connection_.get()) == 0) broken_ = true;
  if (PQstatus(connection_.get()) != CONNECTION_OK) broken_ = true;
  if (PQtransactionStatus(connection_.get()) != PQTRANS_IDLE) broken_ = true;
  return !broken_;
}

absl::StatusOr<PostgresResult> PostgresConnection::Execute(const PostgresStatement& statement,
                                                           const PostgresParameters& parameters) {
  const bool alone = PQtransactionStatus(connection_.get()) == PQTRANS_IDLE;
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<PostgresResult> result = ExecuteOnce(statement, parameters);
    if (result.ok() || result.status().code() != absl::StatusCode::kAborted) return result;
    if (!alone || attempt == kMaxAttempts) {
      return absl::UnavailableError("postgres gave the statement up for another transaction");
    }
  }
}

absl::StatusOr<PostgresResult> PostgresConnection::ExecuteOnce(
    const PostgresStatement& statement, const PostgresParameters& parameters) {
  if (absl::Status status = Prepare(statement); !status.ok()) return status;
  const std::size_t count = parameters.values().size();
  std::vector<const char*> values(count);
  std::vector<int> lengths(count);
  const std::vector<int> formats(count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = parameters.values()[i].data();
    lengths[i] = static_cast<int>(parameters.values()[i].size());
  }
  unconfirmed_ = false;
  if (PQsendQueryPrepared(connection_.get(), statement.name.c_str(), static_cast<int>(count),
                          values.data(), lengths.data(), formats.data(),
                          /*resultFormat=*/1) == 0) {
    broken_ = true;
    return absl::UnavailableError("postgres session lost");
  }
  PostgresResult result(Await());
  if (absl::Status status = ToStatus(result.get()); !status.ok()) return status;
  return result;
}

absl::Status PostgresConnection::Prepare(const PostgresStatement& statement) {
  if (prepared_.contains(statement.name)) return absl::OkStatus();
  if (PQsendPrepare(connection_.get(), statement.name.c_str(), statement.sql.c_str(), 0, nullptr) ==
      0) {
    broken_ = true;
    return absl::UnavailableError("postgres session lost");
  }
  const PostgresResult result(Await());
  absl::Status status = ToStatus(result.get());
  if (status.ok()) prepared_.insert(statement.name);
  return status;
}

std::string PostgresConnection::TryPrepare(const PostgresStatement& statement) {
  if (PQsendPrepare(connection_.get(), statement.name.c_str(), statement.sql.c_str(), 0, nullptr) ==
      0) {
    broken_ = true;
    return "08006";
  }
  const PostgresResult result(Await());
  if (result.get() == nullptr) return "08006";
  if (!Succeeded(result.get())) return std::string(StateOf(result.get()));
  prepared_.insert(statement.name);
  return "";
}

absl::StatusOr<PostgresResult> PostgresConnection::ExecuteScript(const std::string& sql) {
  if (PQsendQuery(connection_.get(), sql.c_str()) == 0) {
    broken_ = true;
    return absl::UnavailableError("postgres session lost");
  }
  PostgresResult result(Await());
  if (result.get() != nullptr && Succeeded(result.get())) return result;
  const absl::Status status = ToStatus(result.get());
  const char* const message =
      result.get() == nullptr ? nullptr : PQresultErrorField(result.get(), PG_DIAG_MESSAGE_PRIMARY);
  return absl::Status(status.code(), absl::StrCat(AbslView(message == nullptr ? "" : message), " (",
                                                  status.message(), ")"));
}

PGresult* PostgresConnection::Await() {
  const auto deadline = std::chrono::steady_clock::now() + reply_timeout_;
  PostgresResult last(nullptr);
  while (true) {
    int unsent = PQflush(connection_.get());
    while (unsent > 0 || PQisBusy(connection_.get()) != 0) {
      if (!WaitForSocket(unsent > 0, deadline) || PQconsumeInput(connection_.get()) == 0) {
        broken_ = true;
        return nullptr;
      }
      if (unsent > 0) unsent = PQflush(connection_.get());
    }
    PGresult* const next = PQgetResult(connection_.get());
    if (next == nullptr) break;
    // Of several statements the first failure counts, else the last answer.
    const bool failed = last.get() != nullptr && !Succeeded(last.get());
    PostgresResult owned(next);
    if (!failed) last = std::move(owned);
  }
  if (PQstatus(connection_.get()) != CONNECTION_OK) broken_ = true;
  return last.release();
}

bool PostgresConnection::WaitForSocket(bool for_writing,
                                       std::chrono::steady_clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      spdlog::warn("postgres: no answer within {} ms; the session is given up",
                   reply_timeout_.count());
      return false;
    }
    const short events = static_cast<short>(for_writing ? POLLIN | POLLOUT : POLLIN);
    pollfd socket = {PQsocket(connection_.get()), events, 0};
    const int ready = poll(&socket, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

absl::Status PostgresConnection::ToStatus(const PGresult* result) {
  if (result == nullptr) {
    broken_ = true;
    return absl::UnavailableError("postgres session lost");
  }
  if (Succeeded(result)) {
    if (!unconfirmed_) return absl::OkStatus();
    spdlog::warn("postgres: a commit was not confirmed by the synchronous standby");
    return absl::UnavailableError("the synchronous standby did not confirm");
  }
  const std::string_view state = StateOf(result);
  spdlog::warn("postgres: statement failed, SQLSTATE {}", state);
  if (state == kSerializationFailure || state == kDeadlockDetected) {
    return absl::AbortedError("another transaction was in the way");
  }
  // A server that turned into a standby, or a proxy that swapped the session.
  if (state == kReadOnlyTransaction || state == kUnknownPreparedStatement) broken_ = true;
  const std::string text = absl::StrCat("SQLSTATE ", AbslView(state));
  if (StartsWith(state, "22") || StartsWith(state, "54")) return absl::InvalidArgumentError(text);
  if (StartsWith(state, "23")) return absl::InternalError(text);
  return absl::UnavailableError(text);
}

}  // namespace idempotency
