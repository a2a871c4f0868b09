#include "interceptors/server/threads/timer_thread.h"

#include <pthread.h>

namespace idempotency::internal {

TimerThread::TimerThread(const Clock& clock) : clock_(clock), thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "guard-timer");
}

TimerThread::~TimerThread() { Stop(); }

Scheduler::TaskId TimerThread::RunAt(Time when, Task task) {
  return Plan(when, {std::move(task), /*also_when_stopped=*/false});
}

Scheduler::TaskId TimerThread::RunAtOrWhenStopped(Time when, Task task) {
  return Plan(when, {std::move(task), /*also_when_stopped=*/true});
}

Scheduler::TaskId TimerThread::Plan(Time when, Planned planned) {
  MutexLock lock(mutex_);
  if (stopped_) return 0;
  const TaskId id = ++last_id_;
  times_.emplace(id, when);
  const auto added = tasks_.emplace(std::make_pair(when, id), std::move(planned)).first;
  // The thread sleeps until the earliest task: only a new earliest matters.
  if (added == tasks_.begin()) changed_.NotifyOne();
  return id;
}

void TimerThread::Cancel(TaskId id) {
  // Destroyed after the lock is released: objects that it owns may call back here.
  Task dropped;
  MutexLock lock(mutex_);
  const auto time = times_.find(id);
  if (time == times_.end()) return;
  const auto task = tasks_.find({time->second, id});
  dropped = std::move(task->second.task);
  tasks_.erase(task);
  times_.erase(time);
}

void TimerThread::Stop() {
  Tasks dropped;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
    times_.clear();
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
  for (const auto& [when, planned] : dropped) {
    if (planned.also_when_stopped) planned.task();
  }
}

void TimerThread::Run() {
  while (true) {
    Task due;
    {
      MutexLock lock(mutex_);
      while (!stopped_ && (tasks_.empty() || tasks_.begin()->first.first > clock_.Monotonic())) {
        if (tasks_.empty()) {
          changed_.Wait(lock);
        } else {
          changed_.WaitUntil(lock, tasks_.begin()->first.first);
        }
      }
      if (stopped_) return;
      const auto first = tasks_.begin();
      due = std::move(first->second.task);
      times_.erase(first->first.second);
      tasks_.erase(first);
    }
    due();
  }
}

}  // namespace idempotency::internal
