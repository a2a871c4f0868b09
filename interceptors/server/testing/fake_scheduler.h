#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_FAKE_SCHEDULER_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_FAKE_SCHEDULER_H_

#include <map>
#include <utility>

#include "absl/time/time.h"

#include "core/mutex.h"
#include "interceptors/server/threads/scheduler.h"

namespace idempotency::internal {

// A scheduler whose time a test advances; tasks run on the test's thread. Thread-safe.
class FakeScheduler final : public Scheduler {
 public:
  Time Now() const override {
    MutexLock lock(mutex_);
    return now_;
  }
  TaskId RunAt(Time when, Task task) override {
    return Schedule(when, {std::move(task), /*runs_when_stopped=*/false});
  }
  TaskId RunAtOrWhenStopped(Time when, Task task) override {
    return Schedule(when, {std::move(task), /*runs_when_stopped=*/true});
  }
  void Cancel(TaskId id) override {
    Scheduled dropped;
    MutexLock lock(mutex_);
    for (auto task = tasks_.begin(); task != tasks_.end(); ++task) {
      if (task->first.second != id) continue;
      dropped = std::move(task->second);
      tasks_.erase(task);
      return;
    }
  }
  void Stop() override {
    std::map<std::pair<Time, TaskId>, Scheduled> tasks;
    {
      MutexLock lock(mutex_);
      stopped_ = true;
      tasks.swap(tasks_);
    }
    for (auto& [when, scheduled] : tasks) {
      if (scheduled.runs_when_stopped) scheduled.task();
    }
  }

  // Runs all tasks that become due, each at its own time.
  void Advance(absl::Duration by) {
    const Time end = Now() + absl::ToChronoNanoseconds(by);
    while (Task task = NextUntil(end)) task();
  }

  std::size_t pending() const {
    MutexLock lock(mutex_);
    return tasks_.size();
  }

 private:
  struct Scheduled {
    Task task;
    bool runs_when_stopped = false;
  };

  TaskId Schedule(Time when, Scheduled scheduled) {
    MutexLock lock(mutex_);
    if (stopped_) return 0;
    tasks_.emplace(std::make_pair(when, ++last_id_), std::move(scheduled));
    return last_id_;
  }
  // Empty, and sets the time to `end`, if no task is due before.
  Task NextUntil(Time end) {
    MutexLock lock(mutex_);
    const auto first = tasks_.begin();
    if (first == tasks_.end() || first->first.first > end) {
      now_ = end;
      return nullptr;
    }
    if (first->first.first > now_) now_ = first->first.first;
    Task task = std::move(first->second.task);
    tasks_.erase(first);
    return task;
  }

  mutable Mutex mutex_;
  Time now_ ABSL_GUARDED_BY(mutex_) = Time() + std::chrono::hours(1);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  TaskId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<Time, TaskId>, Scheduled> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_FAKE_SCHEDULER_H_
