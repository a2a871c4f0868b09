#ifndef IDEMPOTENCY_TESTS_SIMULATION_SIMULATION_H_
#define IDEMPOTENCY_TESTS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/store/memory/memory_store.h"
#include "tests/simulation/app.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/daemons.h"
#include "tests/simulation/journal.h"
#include "tests/simulation/network.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/store_clock.h"
#include "tests/simulation/watched_store.h"

namespace idempotency::internal::simulation {

// One run: callers, application servers, daemons and a store; a number of steps, in each of which
// an operation begins or a fault happens; then a time without faults, in which every key must
// settle.
class Simulation {
 public:
  Simulation(Scheduler& scheduler, Journal& journal);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Returns when every promise was kept; otherwise Journal::Broken().
  void Run(int steps);

 private:
  struct Key {
    Call call;
    // Also gets: the answer to another request under this key.
    std::string other_request;
    bool settled = false;
  };

  void Direct(int steps);
  void Step();
  void EndFaults();
  void SettleAll();
  void Settle(Key& key);

  // Callers.
  void BeginCall();
  Key& NewKey();
  // Tries until there is an answer that will not change, or time_limit ends. True if there was one.
  bool Try(const Call& call, int tries);
  Answer SendOnce(const Call& call);
  bool IsFinal(const Call& call, const Answer& answer);

  // Faults.
  void KillApp(std::size_t place, bool in_order);
  void KillDaemon(std::size_t place, bool in_order);
  void StartApp(std::size_t place);
  void StartDaemon(std::size_t place);
  void PauseOneProcess();
  void JumpClock();
  void CutSomething();
  void TakeStoreAway();
  // It loses relaxed reservations that it has not made durable.
  void CrashStore();
  void TakeLedgerAway();
  Process* SomeProcess();

  Scheduler& scheduler_;
  Journal& journal_;
  Random& random_;
  Plan plan_;
  StoreClock store_clock_;
  MemoryStore memory_;
  Checker checker_;
  WatchedStore store_;
  bool store_away_ = false;
  Network network_;
  Daemons daemons_{2};
  Application application_;
  std::vector<App*> apps_{2, nullptr};
  std::vector<std::unique_ptr<Key>> keys_;
  bool faults_over_ = false;
  bool done_ = false;
  int unsettled_ = 0;
  // Gets a request to end in order, and is killed after a while.
  std::vector<Process*> stopping_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_SIMULATION_H_
