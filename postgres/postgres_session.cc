#include "postgres/postgres_session.h"

#include <poll.h>

#include <chrono>
#include <utility>

#include "postgres/unconfirmed_commit.h"

namespace idempotency::internal {

PostgresSession::PostgresSession(const std::string& conninfo, SocketWatchdog& watchdog)
    : watchdog_(watchdog),
      connection_(conninfo),
      socket_(connection_.sock()),
      notices_(connection_) {
  if (!socket_.valid()) throw pqxx::failure("no file descriptor left for the session");
  NeverReconnect(connection_);
  MakeMessagesVerbose(connection_);
}

bool PostgresSession::Watched(absl::Duration time_limit, absl::FunctionRef<void()> call) {
  const SocketWatchdog::Watch watch(
      watchdog_, socket_, std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(time_limit));
  call();
  return !watch.expired();
}

void PostgresSession::Prepare(const std::string& name, const std::string& sql) {
  if (prepared_.contains(name)) return;
  connection_.prepare(name, sql);
  prepared_.insert(name);
}

void PostgresSession::PrepareNow(const std::string& name, const std::string& sql) {
  Prepare(name, sql);
#if IDEMPOTENCY_LIBPQXX_6
  connection_.prepare_now(name);
#endif
}

std::vector<PipelinedOutcome> PostgresSession::ExecutePipelined(
    const std::string& name, absl::Span<const std::vector<PipelinedValue>> executions) {
  std::vector<PipelinedOutcome> outcomes(executions.size());
  PGconn* const handle = connection_.handle();
  if (handle == nullptr || PQenterPipelineMode(handle) != 1) return outcomes;
  std::size_t sent = 0;
  while (sent < executions.size() && Send(name, executions[sent])) ++sent;
  for (std::size_t i = 0; i < sent; ++i) {
    outcomes[i] = Receive();
    if (outcomes[i].lost) return outcomes;  // and so are those after it
  }
  // Fails only with results outstanding, which a lost session has.
  if (sent == executions.size()) PQexitPipelineMode(handle);
  return outcomes;
}

bool PostgresSession::Send(const std::string& name, const std::vector<PipelinedValue>& values) {
  std::vector<const char*> texts;
  std::vector<int> lengths;
  for (const PipelinedValue& value : values) {
    // A null pointer is NULL, also for a value that is empty.
    texts.push_back(!value ? nullptr : value->empty() ? "" : value->data());
    lengths.push_back(value ? static_cast<int>(value->size()) : 0);
  }
  const std::vector<int> binary(values.size(), 1);
  constexpr int kTextResults = 0;
  PGconn* const handle = connection_.handle();
  return PQsendQueryPrepared(handle, name.c_str(), static_cast<int>(values.size()), texts.data(),
                             lengths.data(), binary.data(), kTextResults) == 1 &&
         PQpipelineSync(handle) == 1;
}

// The statement's result, a null pointer, and that of the synchronisation, before which the commit
// ends and its notices arrive.
PipelinedOutcome PostgresSession::Receive() {
  PipelinedOutcome outcome;
  TakeUnconfirmedCommit();
  bool ended = false;
  while (true) {
    const PipelinedRows result(PQgetResult(connection_.handle()), [](const PGresult* cleared) {
      PQclear(const_cast<PGresult*>(cleared));
    });
    if (result == nullptr) {
      if (std::exchange(ended, true)) return outcome;  // twice: nothing more comes
      continue;
    }
    switch (PQresultStatus(result.get())) {
      case PGRES_PIPELINE_SYNC:
        outcome.lost = !outcome.rows && outcome.state.empty();
        outcome.unconfirmed = TakeUnconfirmedCommit();
        return outcome;
      case PGRES_TUPLES_OK:
      case PGRES_COMMAND_OK:
        outcome.rows = result;
        break;
      default: {
        const char* const state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
        // libpq's own, of a session that ended.
        if (state == nullptr || PQstatus(connection_.handle()) != CONNECTION_OK) return outcome;
        outcome.state = state;
        outcome.rows = nullptr;
      }
    }
  }
}

bool PostgresSession::TakeUnconfirmedCommit() { return std::exchange(notices_.unconfirmed, false); }

bool PostgresSession::HasUnreadInput() {
  pollfd socket = {connection_.sock(), POLLIN, 0};
  return poll(&socket, 1, 0) > 0;
}

bool PostgresSession::CommitNotices::operator()(const char message[]) noexcept {
  if (SaysCommitIsUnconfirmed(message)) unconfirmed = true;
  return false;
}

}  // namespace idempotency::internal
