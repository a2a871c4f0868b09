#include "server/queue/admin_worker.h"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace idempotency::internal {

AdminWorker::AdminWorker(std::size_t max_calls) : max_calls_(max_calls) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "admin");
    Run();
  });
}

AdminWorker::~AdminWorker() { Close(); }

bool AdminWorker::TryRun(std::function<void()> call) {
  MutexLock lock(mutex_);
  if (closed_ || calls_.size() + (running_ ? 1 : 0) >= max_calls_) return false;
  calls_.push_back(std::move(call));
  changed_.NotifyAll();
  return true;
}

bool AdminWorker::Pause(absl::Duration duration) {
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(duration);
  MutexLock lock(mutex_);
  while (!hurry_ && changed_.WaitUntil(lock, until)) {
  }
  return !hurry_;
}

void AdminWorker::Hurry() {
  MutexLock lock(mutex_);
  hurry_ = true;
  changed_.NotifyAll();
}

void AdminWorker::Close() {
  {
    MutexLock lock(mutex_);
    hurry_ = true;
    closed_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void AdminWorker::Run() {
  while (true) {
    std::function<void()> call;
    {
      MutexLock lock(mutex_);
      running_ = false;
      while (calls_.empty() && !closed_) changed_.Wait(lock);
      if (calls_.empty()) return;
      call = std::move(calls_.front());
      calls_.pop_front();
      running_ = true;
    }
    call();
  }
}

}  // namespace idempotency::internal
