#ifndef IDEMPOTENCY_TESTS_SIMULATION_FIBER_H_
#define IDEMPOTENCY_TESTS_SIMULATION_FIBER_H_

#include <ucontext.h>

#include <cstdint>
#include <functional>

#include "tests/simulation/process.h"
#include "tests/simulation/thread_locals.h"

namespace idempotency::internal::simulation {

// What stands in a simulation for a thread: a stack that the scheduler switches
// to and from. All fibers run on the program's only thread, one at a time, and
// give way only where a thread would wait.
struct Fiber {
  ucontext_t context{};
  std::function<void()> body;
  // nullptr: of the world outside the product's processes.
  Process* process = nullptr;
  // As pthread_t; 0 for one that runs an event.
  std::uint64_t thread_id = 0;
  // Counts its waits, so that a late waker of an earlier one is recognised.
  std::uint64_t wait = 0;
  bool waiting = false;
  // How the last wait ended.
  bool timed_out = false;
  // Of its own; from 1.
  int id = 0;
  // Mutexes that it holds.
  int locks = 0;
  // Its own while it does not run.
  ThreadLocals thread_locals;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_FIBER_H_
