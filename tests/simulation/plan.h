#ifndef IDEMPOTENCY_TESTS_SIMULATION_PLAN_H_
#define IDEMPOTENCY_TESTS_SIMULATION_PLAN_H_

#include "absl/time/time.h"

#include "tests/simulation/process.h"
#include "tests/simulation/random.h"

namespace idempotency::internal::simulation {

// The properties of one seed: drawn once, so that seeds differ in kind and not only in chance. A
// value type.
struct Plan {
  // The share of failures of one message, one store call, one commit.
  double lost = 0;
  double duplicated = 0;
  double late = 0;
  double stream_breaks = 0;
  double store_fails = 0;
  double commit_in_doubt = 0;
  bool ledger = false;
  // With a ledger: reservations may be lost in a crash of the store.
  bool relaxed = false;
  // Records are soon forgotten.
  bool forgetful = false;
  bool sessions = true;
  bool unary_apps = false;
  bool replay_cache = false;
  bool background_recovery = false;
  int batcher_threads = 2;
  Nanos lease = 5 * kSecond;

  static Plan Draw(Random& random) {
    Plan plan;
    const bool rough = random.Chance(0.7);
    if (rough) {
      plan.lost = 0.05 * static_cast<double>(random.Below(4));
      plan.duplicated = 0.05 * static_cast<double>(random.Below(3));
      plan.late = 0.05 * static_cast<double>(random.Below(3));
      plan.stream_breaks = 0.01 * static_cast<double>(random.Below(4));
      plan.store_fails = 0.04 * static_cast<double>(random.Below(4));
    }
    plan.commit_in_doubt = 0.1;
    plan.ledger = random.Chance(0.4);
    plan.forgetful = random.Chance(0.2);
    plan.sessions = !random.Chance(0.1);
    plan.unary_apps = random.Chance(0.5);
    plan.replay_cache = random.Chance(0.3);
    plan.background_recovery = random.Chance(0.5);
    plan.batcher_threads = static_cast<int>(random.Between(1, 4));
    plan.lease = random.Between(2, 8) * kSecond;
    if (plan.ledger) plan.relaxed = random.Chance(0.6);
    return plan;
  }

  // The time for which keys can be used, and for which their records are kept.
  absl::Duration window() const { return forgetful ? absl::Seconds(40) : absl::Hours(24); }
  absl::Duration retention() const { return forgetful ? absl::Seconds(30) : absl::Hours(24); }

  // All faults are over.
  void EndFaults() { lost = duplicated = late = stream_breaks = store_fails = commit_in_doubt = 0; }
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_PLAN_H_
