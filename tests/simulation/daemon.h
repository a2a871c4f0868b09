#ifndef IDEMPOTENCY_TESTS_SIMULATION_DAEMON_H_
#define IDEMPOTENCY_TESTS_SIMULATION_DAEMON_H_

#include <memory>
#include <optional>
#include <string>

#include "server/observability/observer.h"
#include "server/operation/operations.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/rpc/session_registry.h"
#include "server/rpc/unread_answer_limits.h"
#include "server/service/sweeper.h"
#include "tests/simulation/faulty_store.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/process.h"

namespace idempotency::internal::simulation {

// idempotencyd without gRPC: its parts unchanged, over the store of the run, in a separate process.
class Daemon {
 public:
  Daemon(std::string name, std::int64_t drift_ppm, Nanos wall_error, Store& store,
         Scheduler& scheduler, const Plan& plan, const bool& store_away, Journal& journal);

  Process& process() { return process_; }
  const Process& process() const { return process_; }
  const std::string& name() const { return process_.name(); }

  // In its process: begins to serve.
  void Start();
  bool serving() const { return serving_; }
  // In its process: as at SIGTERM, up to its end.
  void Stop();

  Operations& operations() { return *operations_; }
  SessionRegistry& sessions() { return *sessions_; }
  UnreadAnswerLimits& unread_answers() { return *unread_answers_; }

 private:
  Process process_;
  const Plan& plan_;
  Observer observer_;
  FaultyStore store_;
  bool serving_ = false;
  std::optional<Sweeper> sweeper_;
  std::optional<Batcher> batcher_;
  std::optional<InFlightWaiters> waiters_;
  std::optional<Operations> operations_;
  std::optional<SessionRegistry> sessions_;
  std::optional<UnreadAnswerLimits> unread_answers_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_DAEMON_H_
