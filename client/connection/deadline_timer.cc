#include "client/connection/deadline_timer.h"

#include <pthread.h>

#include <string>
#include <utility>

namespace idempotency::internal {

DeadlineTimer::DeadlineTimer(const char* name, OnTime on_time) : on_time_(std::move(on_time)) {
  thread_ = std::thread([this, thread_name = std::string(name)] {
    pthread_setname_np(pthread_self(), thread_name.c_str());
    Run();
  });
}

void DeadlineTimer::Stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void DeadlineTimer::Replan(Time when) {
  MutexLock lock(mutex_);
  if (when >= planned_.load()) return;
  planned_ = when;
  changed_.NotifyAll();
}

void DeadlineTimer::Run() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && planned_.load() > std::chrono::steady_clock::now()) {
        // Waiting until max() overflows in the library's arithmetic.
        if (planned_.load() == Time::max()) {
          changed_.Wait(lock);
        } else {
          changed_.WaitUntil(lock, planned_.load());
        }
      }
      if (stopping_) return;
      // From here on each requested time is planned again: `on_time_` may have
      // run before the request.
      planned_ = Time::max();
    }
    NoLaterThan(on_time_());
  }
}

}  // namespace idempotency::internal
