#ifndef IDEMPOTENCY_TESTS_SIMULATION_WATCHED_CONNECTION_H_
#define IDEMPOTENCY_TESTS_SIMULATION_WATCHED_CONNECTION_H_

#include <memory>
#include <utility>
#include <variant>

#include "grpc_idempotency/client/connection.h"
#include "tests/simulation/journal.h"
#include "tests/simulation/process.h"

namespace idempotency::internal::simulation {

// Checks a Connection against its contract: every call is answered exactly once, and at its
// deadline at the latest.
class WatchedConnection final : public Connection {
 public:
  // All but `inner` outlive it.
  WatchedConnection(std::unique_ptr<Connection> inner, Process& process, Scheduler& scheduler,
                    Journal& journal)
      : inner_(std::move(inner)), process_(process), scheduler_(scheduler), journal_(journal) {}

  void Send(AnyConnectionCall call, Deadline deadline) override {
    std::visit([&](auto& typed) { typed.done = Watched(deadline, std::move(typed.done)); }, call);
    inner_->Send(std::move(call), deadline);
  }

 private:
  // The time that its threads may need to answer.
  static constexpr Nanos kSlack = kSecond;

  template <typename Response>
  Callback<Response> Watched(Deadline deadline, Callback<Response> done) {
    const auto answered = std::make_shared<bool>(false);
    Expect(scheduler_, journal_, process_, answered,
           process_.WhenMonotonic(deadline.time_since_epoch().count()) + kSlack);
    return
        [&journal = journal_, answered, done = std::move(done)](absl::StatusOr<Response> answer) {
          if (*answered) journal.Broken("a connection answers twice");
          *answered = true;
          done(std::move(answer));
        };
  }

  // Beyond the connection's own end, which answers too.
  static void Expect(Scheduler& scheduler, Journal& journal, Process& process,
                     std::shared_ptr<bool> answered, Nanos by) {
    scheduler.At(by, &process, [&scheduler, &journal, &process, answered = std::move(answered)] {
      if (*answered) return;
      // One that has just continued after a pause has much to do.
      if (scheduler.now() - process.paused_until() < kSlack) {
        return Expect(scheduler, journal, process, answered, scheduler.now() + kSlack);
      }
      journal.Broken("a connection does not answer by the deadline");
    });
  }

  const std::unique_ptr<Connection> inner_;
  Process& process_;
  Scheduler& scheduler_;
  Journal& journal_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_WATCHED_CONNECTION_H_
