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
  TaskId id = 0;
  bool wake = false;
  {
    MutexLock lock(mutex_);
    if (stopped_) return 0;
    id = ++last_id_;
    times_.emplace(id, when);
    tasks_.emplace(std::make_pair(when, id), std::move(planned));
    wake = when < wakes_at_;
    if (wake) wakes_at_ = when;
  }
  if (wake) changed_.NotifyOne();
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

void TimerThread::Sleep(MutexLock& lock) {
  wakes_at_ = tasks_.empty() ? Time::max() : tasks_.begin()->first.first;
  if (tasks_.empty()) {
    changed_.Wait(lock);
  } else {
    changed_.WaitUntil(lock, wakes_at_);
  }
}

void TimerThread::Run() {
  while (true) {
    Task due;
    {
      MutexLock lock(mutex_);
      while (!stopped_ && (tasks_.empty() || tasks_.begin()->first.first > clock_.Monotonic())) {
        Sleep(lock);
      }
      if (stopped_) return;
      // Until it sleeps again it looks by itself.
      wakes_at_ = Time::min();
      const auto first = tasks_.begin();
      due = std::move(first->second.task);
      times_.erase(first->first.second);
      tasks_.erase(first);
    }
    due();
  }
}

}  // namespace idempotency::internal
