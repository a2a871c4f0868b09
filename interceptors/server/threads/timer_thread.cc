#include "interceptors/server/threads/timer_thread.h"

#include <pthread.h>

namespace idempotency::internal {

TimerThread::TimerThread(const Clock& clock) : clock_(clock), thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "guard-timer");
}

TimerThread::~TimerThread() { Stop(); }

Scheduler::TaskId TimerThread::RunAt(Time when, Task task) {
  return Plan({when, std::move(task), /*also_when_stopped=*/false});
}

Scheduler::TaskId TimerThread::RunAtOrWhenStopped(Time when, Task task) {
  return Plan({when, std::move(task), /*also_when_stopped=*/true});
}

Scheduler::TaskId TimerThread::Plan(Planned planned) {
  TaskId id = 0;
  bool wake = false;
  {
    MutexLock lock(mutex_);
    if (stopped_) return 0;
    id = ++last_id_;
    wake = planned.when < wakes_at_;
    if (wake) wakes_at_ = planned.when;
    order_.emplace(planned.when, id);
    tasks_.emplace(id, std::move(planned));
  }
  if (wake) changed_.NotifyOne();
  return id;
}

void TimerThread::Cancel(TaskId id) {
  if (id == 0) return;
  // Destroyed after the lock is released: objects that it owns may call back here.
  Task dropped;
  MutexLock lock(mutex_);
  const auto planned = tasks_.find(id);
  if (planned == tasks_.end()) return;
  dropped = std::move(planned->second.task);
  order_.erase({planned->second.when, id});
  tasks_.erase(planned);
}

void TimerThread::Stop() {
  absl::flat_hash_map<TaskId, Planned> dropped;
  absl::btree_set<std::pair<Time, TaskId>> order;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
    order.swap(order_);
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
  for (const auto& [when, id] : order) {
    Planned& planned = dropped.at(id);
    if (planned.also_when_stopped) planned.task();
  }
}

void TimerThread::Sleep(MutexLock& lock) {
  wakes_at_ = order_.empty() ? Time::max() : order_.begin()->first;
  if (order_.empty()) {
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
      while (!stopped_ && (order_.empty() || order_.begin()->first > clock_.Monotonic())) {
        Sleep(lock);
      }
      if (stopped_) return;
      // Until it sleeps again it looks by itself.
      wakes_at_ = Time::min();
      const auto first = tasks_.find(order_.begin()->second);
      due = std::move(first->second.task);
      order_.erase(order_.begin());
      tasks_.erase(first);
    }
    due();
  }
}

}  // namespace idempotency::internal
