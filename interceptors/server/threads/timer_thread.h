#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_TIMER_THREAD_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_TIMER_THREAD_H_

#include <thread>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "interceptors/server/threads/scheduler.h"

namespace idempotency::internal {

// A Scheduler on one thread, named "guard-timer". Nearly every task is cancelled before it is due,
// so the thread is woken only for one that is due before it wakes by itself. Thread-safe.
class TimerThread final : public Scheduler {
 public:
  explicit TimerThread(const Clock& clock = Clock::System());
  // Stop().
  ~TimerThread() override;

  Time Now() const override { return clock_.Monotonic(); }
  TaskId RunAt(Time when, Task task) override;
  TaskId RunAtOrWhenStopped(Time when, Task task) override;
  void Cancel(TaskId id) override;

  // The tasks of the stop run on the thread that calls Stop().
  void Stop() override;

 private:
  struct Planned {
    Time when;
    Task task;
    bool also_when_stopped = false;
  };

  TaskId Plan(Planned planned);
  void Run();
  // Until the earliest task, or a notification.
  void Sleep(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  TaskId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<TaskId, Planned> tasks_ ABSL_GUARDED_BY(mutex_);
  // Their order. A set of many elements in each node: a task costs no allocation of its own.
  absl::btree_set<std::pair<Time, TaskId>> order_ ABSL_GUARDED_BY(mutex_);
  // When the thread looks at the tasks next, unless it is woken: no later than the earliest one.
  Time wakes_at_ ABSL_GUARDED_BY(mutex_) = Time::min();
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_TIMER_THREAD_H_
