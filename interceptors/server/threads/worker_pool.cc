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

WorkerPool::Outcome WorkerPool::Run(absl::AnyInvocable<void()> work,
                                    absl::AnyInvocable<void()> if_stopped) {
  std::shared_ptr<Worker> summoned;
  {
    MutexLock lock(mutex_);
    if (stopped_) return Outcome::kStopped;
    if (work_.size() >= max_waiting_) return Outcome::kFull;
    work_.push_back({std::move(work), std::move(if_stopped)});
    summoned = Summon();
    if (workers_.empty()) {
      // No thread would run it.
      work_.pop_back();
      return Outcome::kFull;
    }
  }
  if (summoned != nullptr) summoned->woken_changed.NotifyOne();
  return Outcome::kTaken;
}

std::shared_ptr<WorkerPool::Worker> WorkerPool::Summon() {
  if (summoned_ || work_.empty()) return nullptr;
  if (idle_.empty()) {
    if (!stopped_ && workers_.size() < max_threads_) Begin();
    return nullptr;
  }
  summoned_ = true;
  std::shared_ptr<Worker> latest = std::move(idle_.back());
  idle_.pop_back();
  latest->woken = true;
  return latest;
}

void WorkerPool::Begin() {
  const std::string name = name_ + "-" + std::to_string(workers_.size() + 1);
  auto worker = std::make_shared<Worker>();
  try {
    worker->thread = std::thread([this, self = worker, name] { Loop(self, name); });
  } catch (const std::system_error&) {
    // The process has reached its thread limit: the existing threads continue.
    return;
  }
  workers_.push_back(std::move(worker));
  summoned_ = true;
}

void WorkerPool::Loop(const std::shared_ptr<Worker>& self, const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, kMaxThreadNameBytes).c_str());
  {
    MutexLock lock(mutex_);
    summoned_ = false;
  }
  absl::AnyInvocable<void()> work;
  while (Next(self, work)) {
    work();
    // Its captured objects must be destroyed before the next task.
    work = nullptr;
  }
}

void WorkerPool::WaitForWork(const std::shared_ptr<Worker>& self, MutexLock& lock) {
  self->woken = false;
  idle_.push_back(self);
  while (!self->woken) self->woken_changed.Wait(lock);
  summoned_ = false;
}

bool WorkerPool::Next(const std::shared_ptr<Worker>& self, absl::AnyInvocable<void()>& work) {
  std::shared_ptr<Worker> summoned;
  {
    MutexLock lock(mutex_);
    while (work_.empty() && !stopped_) WaitForWork(self, lock);
    if (work_.empty()) return false;
    Task& task = work_.front();
    work = std::move(stopped_ && task.if_stopped != nullptr ? task.if_stopped : task.work);
    work_.pop_front();
    // This thread may block in its task.
    summoned = Summon();
  }
  if (summoned != nullptr) summoned->woken_changed.NotifyOne();
  return true;
}

void WorkerPool::Stop() {
  std::vector<std::shared_ptr<Worker>> running;
  {
    MutexLock lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    for (const std::shared_ptr<Worker>& idle : idle_) {
      idle->woken = true;
      idle->woken_changed.NotifyOne();
    }
    idle_.clear();
    running = workers_;
  }
  for (const std::shared_ptr<Worker>& worker : running) worker->thread.join();
}

}  // namespace idempotency::internal
