#ifndef IDEMPOTENCY_TESTS_SIMULATION_WATCHED_CONNECTION_H_
#define IDEMPOTENCY_TESTS_SIMULATION_WATCHED_CONNECTION_H_

#include <memory>
#include <utility>

#include "client/testing/connection_decorator.h"
#include "grpc_idempotency/client/connection.h"
#include "tests/simulation/journal.h"
#include "tests/simulation/process.h"

namespace idempotency::internal::simulation {

// Checks a Connection against its contract: every call is answered exactly once, and at its
// deadline at the latest.
class ConnectionWatch {
 public:
  // All outlive it.
  ConnectionWatch(Process& process, Scheduler& scheduler, Journal& journal)
      : process_(process), scheduler_(scheduler), journal_(journal) {}

  // For one call.
  ConnectionDecorator::BeforeAnswer Begin(Connection::Deadline deadline) const {
    const auto answered = std::make_shared<bool>(false);
    Expect(answered, process_.WhenMonotonic(deadline.time_since_epoch().count()) + kSlack);
    return [&journal = journal_, answered](const absl::Status&) {
      if (*answered) journal.Broken("a connection answers twice");
      *answered = true;
    };
  }

 private:
  // The time that its threads may need to answer.
  static constexpr Nanos kSlack = kSecond;

  // Beyond the connection's own end, which answers too.
  void Expect(std::shared_ptr<bool> answered, Nanos by) const {
    scheduler_.At(by, &process_, [watch = *this, answered = std::move(answered)] {
      if (*answered) return;
      // One that has just continued after a pause has much to do.
      if (watch.scheduler_.now() - watch.process_.paused_until() < kSlack) {
        return watch.Expect(answered, watch.scheduler_.now() + kSlack);
      }
      watch.journal_.Broken("a connection does not answer by the deadline");
    });
  }

  Process& process_;
  Scheduler& scheduler_;
  Journal& journal_;
};

// `inner` with a watch.
inline std::unique_ptr<Connection> Watched(std::unique_ptr<Connection> inner,
                                           const ConnectionWatch& watch) {
  ConnectionDecorator::Hooks hooks;
  hooks.watch_answers = [watch](const AnyConnectionCall& /*call*/, Connection::Deadline deadline) {
    return watch.Begin(deadline);
  };
  return std::make_unique<ConnectionDecorator>(std::move(inner), std::move(hooks));
}

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_WATCHED_CONNECTION_H_
