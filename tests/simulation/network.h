#ifndef IDEMPOTENCY_TESTS_SIMULATION_NETWORK_H_
#define IDEMPOTENCY_TESTS_SIMULATION_NETWORK_H_

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "tests/simulation/journal.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/scheduler.h"

namespace idempotency::internal::simulation {

// Carries messages between hosts, which are named like the processes on them.
class Network {
 public:
  // All outlive it.
  Network(Scheduler& scheduler, const Plan& plan, Journal& journal)
      : scheduler_(scheduler), plan_(plan), journal_(journal) {}

  // One message that may be lost, late, overtaken, and arrive twice. `deliver` runs in `to`, for
  // each arrival; not if that has ended by then.
  void Send(const std::string& from, Process* to, const std::string& to_host,
            const std::function<void()>& deliver);

  // The time of one message that is neither lost nor late.
  Nanos Latency();
  // The stream breaks at a message.
  bool BreaksStream();

  // A partition; messages within streams wait for its end, others are lost.
  void Cut(const std::string& a, const std::string& b);
  void HealAll() { cuts_.clear(); }
  bool IsCut(const std::string& a, const std::string& b) const;

  Scheduler& scheduler() { return scheduler_; }
  Journal& journal() { return journal_; }

 private:
  Scheduler& scheduler_;
  const Plan& plan_;
  Journal& journal_;
  std::set<std::pair<std::string, std::string>> cuts_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_NETWORK_H_
