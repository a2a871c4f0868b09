#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_SCHEDULER_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_SCHEDULER_H_

#include <chrono>
#include <cstdint>
#include <functional>

namespace idempotency::internal {

// Runs things later, and says what time it is: all of the guard's waiting goes
// through here, so that tests can move time by hand. Thread-safe.
class Scheduler {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Task = std::function<void()>;
  // 0 is never given.
  using TaskId = std::uint64_t;

  virtual ~Scheduler() = default;

  virtual Time Now() const = 0;
  // Runs `task` once, at `when` or soon after, on a thread of the scheduler's.
  // It must not block: everything else waits behind it. A scheduler that was
  // stopped drops it and answers 0.
  virtual TaskId RunAt(Time when, Task task) = 0;
  // The same for a task that somebody waits for: a scheduler that is stopped
  // first runs it then, early, instead of dropping it.
  virtual TaskId RunAtOrWhenStopped(Time when, Task task) = 0;
  // A task that has not started never will. Does nothing for one that has, and
  // does not wait for it.
  virtual void Cancel(TaskId id) = 0;
  // Waits for the task that runs; then runs those of RunAtOrWhenStopped and drops
  // the others. Not to be called from a task. Safe to call twice.
  virtual void Stop() = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_SCHEDULER_H_
