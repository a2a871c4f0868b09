#include "interceptors/server/threads/worker_pool.h"

#include <pthread.h>

#include <system_error>
#include <utility>

namespace idempotency::internal {
namespace {

// The limit of pthread_setname_np, without the terminating zero.
constexpr std::size_t kMaxThreadNameBytes = 15;

}  // namespace

WorkerPool::WorkerPool(std::string name, int max_threads, std::size_t max_waiting)
    : name_(std::move(name)),
      max_threads_(static_cast<std::size_t>(max_threads)),
      max_waiting_(max_waiting) {}

WorkerPool::~WorkerPool() { Stop(); }

WorkerPool::Outcome WorkerPool::Run(absl::AnyInvocable<void()> work) {
  MutexLock lock(mutex_);
  if (stopped_) return Outcome::kStopped;
  if (work_.size() >= max_waiting_) return Outcome::kFull;
  work_.push_back(std::move(work));
  Summon();
  if (!threads_.empty()) return Outcome::kTaken;
  // No thread would run it.
  work_.pop_back();
  return Outcome::kFull;
}

void WorkerPool::Summon() {
  if (summoned_ || work_.empty()) return;
  if (!idle_.empty()) {
    summoned_ = true;
    IdleThread& latest = *idle_.back();
    idle_.pop_back();
    Wake(latest);
  } else if (!stopped_ && threads_.size() < max_threads_) {
    Begin();
  }
}

void WorkerPool::Begin() {
  const std::string name = name_ + "-" + std::to_string(threads_.size() + 1);
  try {
    threads_.emplace_back([this, name] { Loop(name); });
    summoned_ = true;
  } catch (const std::system_error&) {
    // The process has reached its thread limit: the existing threads continue.
  }
}

void WorkerPool::Loop(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, kMaxThreadNameBytes).c_str());
  {
    MutexLock lock(mutex_);
    summoned_ = false;
  }
  absl::AnyInvocable<void()> work;
  while (Next(work)) {
    work();
    // Its captured objects must be destroyed before the next task.
    work = nullptr;
  }
}

void WorkerPool::Wake(IdleThread& thread) {
  thread.woken = true;
  thread.woken_changed.NotifyOne();
}

void WorkerPool::WaitForWork(MutexLock& lock) {
  IdleThread self;
  idle_.push_back(&self);
  while (!self.woken) self.woken_changed.Wait(lock);
  summoned_ = false;
}

bool WorkerPool::Next(absl::AnyInvocable<void()>& work) {
  MutexLock lock(mutex_);
  while (work_.empty() && !stopped_) WaitForWork(lock);
  if (work_.empty()) return false;
  work = std::move(work_.front());
  work_.pop_front();
  // This thread may block in its task.
  Summon();
  return true;
}

void WorkerPool::Stop() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
    for (IdleThread* thread : idle_) Wake(*thread);
    idle_.clear();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace idempotency::internal
