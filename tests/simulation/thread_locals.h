#ifndef IDEMPOTENCY_TESTS_SIMULATION_THREAD_LOCALS_H_
#define IDEMPOTENCY_TESTS_SIMULATION_THREAD_LOCALS_H_

#include <vector>

namespace idempotency::internal::simulation {

// The program's thread_local variables as one fiber has them: to the product a
// fiber is a thread, and what one thread notes must not be seen by another. A
// fiber of a killed process may have noted what is no more.
//
// They are taken as bytes, so the program has none whose destructor must run.
// Those of shared libraries stay the only thread's: no library that the product
// calls in a simulation gives way in the middle.
class ThreadLocals {
 public:
  // As a new thread has them.
  ThreadLocals();

  // Puts these in the place of the thread's, which are kept here in turn.
  void Exchange();

 private:
  std::vector<char> bytes_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_THREAD_LOCALS_H_
