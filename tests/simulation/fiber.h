#ifndef IDEMPOTENCY_TESTS_SIMULATION_FIBER_H_
#define IDEMPOTENCY_TESTS_SIMULATION_FIBER_H_

#include <ucontext.h>

#include <cstdint>
#include <functional>

#include "tests/simulation/process.h"
#include "tests/simulation/thread_locals.h"

namespace idempotency::internal::simulation {

// Replaces a thread in a simulation: a stack that the scheduler switches to and from. All fibers
// run on the program's only thread, one at a time, and yield only where a thread would wait.
struct Fiber {
  ucontext_t context{};
  std::function<void()> body;
  // nullptr: not in one of the product's processes.
  Process* process = nullptr;
  // As pthread_t; 0 for one that runs an event.
  std::uint64_t thread_id = 0;
  // Counts its waits, so that a late wake-up of an earlier one is detected.
  std::uint64_t wait = 0;
  bool waiting = false;
  // The end of the last wait.
  bool timed_out = false;
  // Its own number; from 1.
  int id = 0;
  // Mutexes that it holds.
  int locks = 0;
  // Its own while it does not run.
  ThreadLocals thread_locals;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_FIBER_H_
