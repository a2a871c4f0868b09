#ifndef IDEMPOTENCY_TESTS_SIMULATION_THREAD_LOCALS_H_
#define IDEMPOTENCY_TESTS_SIMULATION_THREAD_LOCALS_H_

#include <vector>

namespace idempotency::internal::simulation {

// The program's thread_local variables as one fiber has them: to the product a fiber is a thread,
// and values that one thread stores must not be seen by another. A fiber of a killed process may
// have stored pointers to objects that no longer exist.
//
// They are copied as bytes, so the program has none whose destructor must run. Those of shared
// libraries stay the only thread's: no library that the product calls in a simulation yields in the
// middle.
class ThreadLocals {
 public:
  // Their values in a new thread.
  ThreadLocals();

  // Replaces the thread's by these, and keeps the thread's here in turn.
  void Exchange();

 private:
  std::vector<char> bytes_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_THREAD_LOCALS_H_
