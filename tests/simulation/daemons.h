#ifndef IDEMPOTENCY_TESTS_SIMULATION_DAEMONS_H_
#define IDEMPOTENCY_TESTS_SIMULATION_DAEMONS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tests/simulation/daemon.h"
#include "tests/simulation/random.h"

namespace idempotency::internal::simulation {

// The replicas of idempotencyd, as a load balancer sees them: a place for each, which is empty, or
// has an ended process, while one is down.
class Daemons {
 public:
  explicit Daemons(std::size_t places) : places_(places, nullptr) {}

  std::size_t size() const { return places_.size(); }
  Daemon*& operator[](std::size_t place) { return places_[place]; }
  // Some place, with or without a running daemon.
  Daemon* Pick(Random& random) const { return places_[random.Below(places_.size())]; }
  static bool IsUp(const Daemon* daemon) {
    return daemon != nullptr && daemon->process().alive() && daemon->serving();
  }

 private:
  std::vector<Daemon*> places_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_DAEMONS_H_
