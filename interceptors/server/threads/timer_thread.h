#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_TIMER_THREAD_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_TIMER_THREAD_H_

#include <thread>
#include <utility>
#include <vector>

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

  using Due = std::pair<Time, TaskId>;

  TaskId Plan(Planned planned);
  void Run();
  // The first element is of a task, which is due.
  bool IsDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PopFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the elements of cancelled tasks, once they are most of them.
  void RemoveCancelled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until the earliest task, or a notification.
  void Sleep(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  TaskId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<TaskId, Planned> tasks_ ABSL_GUARDED_BY(mutex_);
  // Their order: a heap whose first element is the earliest. A cancelled task keeps its element
  // until that is the first, or until most elements are of cancelled tasks.
  std::vector<Due> order_ ABSL_GUARDED_BY(mutex_);
  // When the thread looks at the tasks next, unless it is woken: no later than the earliest one.
  Time wakes_at_ ABSL_GUARDED_BY(mutex_) = Time::min();
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_TIMER_THREAD_H_
