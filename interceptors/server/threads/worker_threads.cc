#include "interceptors/server/threads/worker_threads.h"

#include <pthread.h>

#include <string>
#include <utility>

namespace idempotency {

WorkerThreads::~WorkerThreads() { Stop(); }

bool WorkerThreads::Run(std::function<void()> work) {
  MutexLock lock(mutex_);
  if (stopped_) return false;
  while (threads_.size() < kThreads) {
    threads_.emplace_back([this] { Loop(); });
    const std::string name = "guard-work-" + std::to_string(threads_.size());
    pthread_setname_np(threads_.back().native_handle(), name.c_str());
  }
  work_.push_back(std::move(work));
  work_arrived_.NotifyOne();
  return true;
}

void WorkerThreads::Loop() {
  while (true) {
    std::function<void()> work;
    {
      MutexLock lock(mutex_);
      while (work_.empty() && !stopped_) work_arrived_.Wait(lock);
      if (work_.empty()) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

void WorkerThreads::Stop() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
    work_arrived_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace idempotency
