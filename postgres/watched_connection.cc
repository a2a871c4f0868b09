#include "postgres/watched_connection.h"

#include <poll.h>

#include <chrono>
#include <memory>
#include <utility>

#include "postgres/unconfirmed_commit.h"

namespace idempotency::internal {
namespace {

PipelinedRows Owned(PGresult* result) {
  if (result == nullptr) return nullptr;
  return {result, [](const PGresult* cleared) { PQclear(const_cast<PGresult*>(cleared)); }};
}

SocketWatchdog::TimePoint After(absl::Duration time) {
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(time);
}

}  // namespace

WatchedConnection::WatchedConnection(const std::string& conninfo, SocketWatchdog& watchdog)
    : watchdog_(watchdog),
      connection_(conninfo),
      socket_(connection_.libpqxx().sock()),
      notices_(connection_.libpqxx()) {
  if (!socket_.valid()) throw pqxx::failure("no file descriptor left for the session");
  NeverReconnect(connection_.libpqxx());
  MakeMessagesVerbose(connection_.libpqxx());
}

bool WatchedConnection::Watched(absl::Duration time_limit, absl::FunctionRef<void()> call) {
  const SocketWatchdog::Watch watch(watchdog_, socket_, After(time_limit));
  call();
  return !watch.expired();
}

std::unique_ptr<SocketWatchdog::Watch> WatchedConnection::Watch(absl::Duration time_limit) {
  return std::make_unique<SocketWatchdog::Watch>(watchdog_, socket_, After(time_limit));
}

void WatchedConnection::Prepare(const std::string& name, const std::string& sql) {
  if (prepared_.contains(name)) return;
  PrepareNow(connection_.libpqxx(), name, sql);
  prepared_.insert(name);
}

std::vector<PipelinedOutcome> WatchedConnection::ExecutePipelined(
    absl::Span<const PipelinedExecution> executions,
    absl::FunctionRef<void(const PipelinedOutcome&)> received) {
  std::vector<PipelinedOutcome> outcomes(executions.size());
  PGconn* const handle = connection_.handle();
  if (handle == nullptr || PQenterPipelineMode(handle) != 1) return outcomes;
  std::size_t sent = 0;
  while (sent < executions.size() && SendInPipeline(executions[sent])) ++sent;
  for (std::size_t i = 0; i < sent; ++i) {
    outcomes[i] = ReceiveInPipeline();
    if (outcomes[i].lost) return outcomes;  // and so are those after it
    received(outcomes[i]);
  }
  // Fails only with results outstanding, which a lost connection has.
  if (sent == executions.size()) PQexitPipelineMode(handle);
  return outcomes;
}

bool WatchedConnection::Send(const std::string& name, const std::vector<PipelinedValue>& values,
                             ResultFormat results) {
  std::vector<const char*> texts;
  std::vector<int> lengths;
  texts.reserve(values.size());
  lengths.reserve(values.size());
  for (const PipelinedValue& value : values) {
    // A null pointer is NULL, also for a value that is empty.
    texts.push_back(!value ? nullptr : value->empty() ? "" : value->data());
    lengths.push_back(value ? static_cast<int>(value->size()) : 0);
  }
  const std::vector<int> binary(values.size(), 1);
  PGconn* const handle = connection_.handle();
  return PQsendQueryPrepared(handle, name.c_str(), static_cast<int>(values.size()), texts.data(),
                             lengths.data(), binary.data(), static_cast<int>(results)) == 1;
}

bool WatchedConnection::SendInPipeline(const PipelinedExecution& execution) {
  return Send(*execution.name, execution.values, execution.results) &&
         PQpipelineSync(connection_.handle()) == 1;
}

// The statement's result, a null pointer, and that of the synchronisation, before which the commit
// ends and its notices arrive.
PipelinedOutcome WatchedConnection::ReceiveInPipeline() {
  PipelinedOutcome outcome;
  TakeUnconfirmedCommit();
  bool ended = false;
  while (true) {
    PipelinedRows result = Owned(PQgetResult(connection_.handle()));
    if (result == nullptr) {
      if (std::exchange(ended, true)) return outcome;  // twice: nothing more comes
      continue;
    }
    if (PQresultStatus(result.get()) == PGRES_PIPELINE_SYNC) {
      outcome.lost = !outcome.rows && outcome.state.empty();
      outcome.unconfirmed = TakeUnconfirmedCommit();
      return outcome;
    }
    Take(std::move(result), outcome);
  }
}

bool WatchedConnection::ReadArrived() { return PQconsumeInput(connection_.handle()) == 1; }

// The statement's result, and a null pointer once the server is ready again.
PipelinedOutcome WatchedConnection::Receive() {
  PipelinedOutcome outcome;
  TakeUnconfirmedCommit();
  while (PipelinedRows result = Owned(PQgetResult(connection_.handle()))) {
    Take(std::move(result), outcome);
  }
  outcome.lost =
      PQstatus(connection_.handle()) != CONNECTION_OK || (!outcome.rows && outcome.state.empty());
  outcome.unconfirmed = TakeUnconfirmedCommit();
  return outcome;
}

void WatchedConnection::Take(PipelinedRows result, PipelinedOutcome& outcome) const {
  const ExecStatusType status = PQresultStatus(result.get());
  if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
    outcome.rows = std::move(result);
    return;
  }
  outcome.rows = nullptr;
  // libpq's own results, of a connection that ended, have no state.
  const char* const state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
  const bool is_servers = state != nullptr && PQstatus(connection_.handle()) == CONNECTION_OK;
  outcome.state = is_servers ? state : "";
  const char* const source = PQresultErrorField(result.get(), PG_DIAG_SOURCE_FILE);
  outcome.source = is_servers && source != nullptr ? source : "";
}

bool WatchedConnection::TakeUnconfirmedCommit() {
  return std::exchange(notices_.unconfirmed, false);
}

bool WatchedConnection::HasUnreadInput() {
  pollfd socket = {connection_.libpqxx().sock(), POLLIN, 0};
  return poll(&socket, 1, 0) > 0;
}

bool WatchedConnection::CommitNotices::operator()(const char message[]) noexcept {
  if (IsCommitUnconfirmed(message)) unconfirmed = true;
  return false;
}

}  // namespace idempotency::internal
