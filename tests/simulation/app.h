#ifndef IDEMPOTENCY_TESTS_SIMULATION_APP_H_
#define IDEMPOTENCY_TESTS_SIMULATION_APP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "grpc_idempotency/server_guard/server_guard.h"
#include "tests/simulation/call.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/daemons.h"
#include "tests/simulation/ledger.h"
#include "tests/simulation/network.h"

namespace idempotency::internal::simulation {

// The common state of all application servers: the data that their handlers change.
struct Application {
  Scheduler& scheduler;
  Plan& plan;
  Journal& journal;
  Checker& checker;
  std::shared_ptr<Ledger> ledger;
  // Under the record id, for operations that are recovered: a row is the effect (with its reply)
  // or, empty, the fence that prevents it.
  std::map<std::string, std::string> fenced = {};
  // Counts the calls that were served, so that the checker knows them.
  std::uint64_t calls = 0;
  // The faults are over: handlers behave well.
  bool well_behaved = false;
};

// An application server: a process with a guard and a handler. The guard is the real one, with
// everything under it; the handler's actions are drawn.
class App {
 public:
  App(std::string name, std::int64_t drift_ppm, Nanos wall_error, Application& application,
      Network& network, Daemons& daemons);

  Process& process() { return process_; }
  const std::string& name() const { return process_.name(); }

  // In its process.
  void Start();
  bool serving() const { return serving_; }
  // As a server that is shut down: up to the end of its guard.
  void Stop();
  // `respond` is called once, unless the process is killed.
  void Serve(const Call& call, const std::function<void(const Answer&)>& respond);

 private:
  BeginCall BeginCallFor(const Call& call);
  Answer Run(const Call& call, BegunOperation begun);
  Answer Settle(const Call& call, BegunOperation begun, bool effect_done);
  Answer RunWithLedger(const Call& call, BegunOperation begun);
  Answer RunFenced(const Call& call, BegunOperation begun);
  Answer Complete(BegunOperation begun, const std::string& reply);
  Answer Decline(BegunOperation begun);
  Answer CommitDecline(BegunOperation begun);
  grpc::Status DrawDecline();
  Answer Fail(BegunOperation begun, grpc::StatusCode code);
  RecoveryDecision Recover(const RecoveryCase& recovery);
  void Work();
  std::string ReplyTo(const Call& call, const BegunOperation& begun);
  void Effect(const BegunOperation& begun, bool in_ledger);

  Application& application_;
  Network& network_;
  Daemons& daemons_;
  Process process_;
  bool serving_ = false;
  // Calls that it has accepted.
  int serving_calls_ = 0;
  std::unique_ptr<ServerGuard> guard_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_APP_H_
