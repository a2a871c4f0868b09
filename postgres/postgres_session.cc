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
