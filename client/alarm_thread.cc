#include "client/alarm_thread.h"

#include <pthread.h>

#include <string>
#include <utility>

namespace idempotency::internal {

AlarmThread::AlarmThread(const char* name, Ring ring) : ring_(std::move(ring)) {
  thread_ = std::thread([this, thread_name = std::string(name)] {
    pthread_setname_np(pthread_self(), thread_name.c_str());
    Run();
  });
}

void AlarmThread::Stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void AlarmThread::Replan(Time when) {
  MutexLock lock(mutex_);
  if (when >= planned_.load()) return;
  planned_ = when;
  changed_.NotifyAll();
}

void AlarmThread::Run() {
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
      // From here on what is named is planned anew: `ring_` may have looked
      // before it came.
      planned_ = Time::max();
    }
    NoLaterThan(ring_());
  }
}

}  // namespace idempotency::internal
