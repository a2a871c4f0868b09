#include "interceptors/server/threads/timer_thread.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <functional>

namespace idempotency::internal {
namespace {

// For a heap with the earliest element first.
constexpr std::greater<> kLater{};
// In fewer elements the cancelled ones are not looked for.
constexpr std::size_t kMinElements = 64;

}  // namespace

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
    order_.emplace_back(planned.when, id);
    std::push_heap(order_.begin(), order_.end(), kLater);
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
  tasks_.erase(planned);
  RemoveCancelled();
}

void TimerThread::PopFirst() {
  std::pop_heap(order_.begin(), order_.end(), kLater);
  order_.pop_back();
}

void TimerThread::RemoveCancelled() {
  if (order_.size() < kMinElements || order_.size() < 2 * tasks_.size()) return;
  std::size_t kept = 0;
  for (const Due& due : order_) {
    if (tasks_.contains(due.second)) order_[kept++] = due;
  }
  order_.resize(kept);
  std::make_heap(order_.begin(), order_.end(), kLater);
}

void TimerThread::Stop() {
  absl::flat_hash_map<TaskId, Planned> dropped;
  std::vector<Due> order;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
    order.swap(order_);
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
  std::sort(order.begin(), order.end());
  for (const auto& [when, id] : order) {
    const auto planned = dropped.find(id);
    if (planned != dropped.end() && planned->second.also_when_stopped) planned->second.task();
  }
}

void TimerThread::Sleep(MutexLock& lock) {
  wakes_at_ = order_.empty() ? Time::max() : order_.front().first;
  if (order_.empty()) {
    changed_.Wait(lock);
  } else {
    changed_.WaitUntil(lock, wakes_at_);
  }
}

bool TimerThread::IsDue() {
  while (!order_.empty() && !tasks_.contains(order_.front().second)) PopFirst();
  return !order_.empty() && order_.front().first <= clock_.Monotonic();
}

void TimerThread::Run() {
  while (true) {
    Task due;
    {
      MutexLock lock(mutex_);
      while (!stopped_ && !IsDue()) Sleep(lock);
      if (stopped_) return;
      // Until it sleeps again it looks by itself.
      wakes_at_ = Time::min();
      const auto first = tasks_.find(order_.front().second);
      due = std::move(first->second.task);
      tasks_.erase(first);
      PopFirst();
    }
    due();
  }
}

}  // namespace idempotency::internal
