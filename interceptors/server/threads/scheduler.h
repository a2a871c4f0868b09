#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_SCHEDULER_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_SCHEDULER_H_

#include <chrono>
#include <cstdint>

#include "absl/functional/any_invocable.h"

namespace idempotency::internal {

// Runs tasks later, and provides the time: all of the guard's waiting uses it, so that tests
// can control time. Thread-safe.
class Scheduler {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Task = absl::AnyInvocable<void()>;
  // Never 0 for a scheduled task.
  using TaskId = std::uint64_t;

  virtual ~Scheduler() = default;

  virtual Time Now() const = 0;
  // Runs `task` once, at `when` or soon after, on a thread of the scheduler's. It must not
  // block: all other tasks wait for it. A stopped scheduler drops the task and returns 0.
  virtual TaskId RunAt(Time when, Task task) = 0;
  // The same for a task with a waiting caller: a scheduler that is stopped before `when` runs
  // it then, early, instead of dropping it.
  virtual TaskId RunAtOrWhenStopped(Time when, Task task) = 0;
  // Prevents a task that has not started. Does nothing for one that has, and does not wait for
  // it.
  virtual void Cancel(TaskId id) = 0;
  // Waits for the running task, then runs those of RunAtOrWhenStopped and drops the others. Not
  // to be called from a task. Safe to call twice.
  virtual void Stop() = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_SCHEDULER_H_
