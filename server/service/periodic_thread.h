#ifndef IDEMPOTENCY_SERVER_SERVICE_PERIODIC_THREAD_H_
#define IDEMPOTENCY_SERVER_SERVICE_PERIODIC_THREAD_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"

#include "server/service/stop_latch.h"

namespace idempotency::internal {

// A thread that runs a step from time to time, until it is stopped: a pause ends then, and a step
// in progress runs to its end. As the last member of its owner it stops before what the step uses.
//
// One thread constructs, stops and destroys it.
class PeriodicThread {
 public:
  // Returns the pause before the next step.
  using Step = std::function<absl::Duration()>;

  // `name`: up to 15 characters, for the process list; a literal. `first`: the pause before the
  // first step; zero: that step runs in any case, as its owner relies on one.
  PeriodicThread(const char* name, absl::Duration first, Step step);
  ~PeriodicThread() { Stop(); }
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  // Joins the thread. Not from within a step. May be repeated.
  void Stop();

 private:
  void Run(absl::Duration first);

  const Step step_;
  StopLatch stop_;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_PERIODIC_THREAD_H_
