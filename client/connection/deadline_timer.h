#ifndef IDEMPOTENCY_CLIENT_CONNECTION_DEADLINE_TIMER_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_DEADLINE_TIMER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "core/mutex.h"

namespace idempotency::internal {

// A thread that sleeps until the earliest requested time. A request for a later
// time than is planned costs one comparison, so that each operation can make
// one: the callback examines all operations, and returns its next time.
//
// Thread-safe, except that Stop() must be the last use.
class DeadlineTimer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Called when the planned time has come. Returns the latest time of the next
  // call; Time::max(): the time of NoLaterThan().
  using OnTime = std::function<Time()>;

  // `name`: up to 15 characters, for the process list.
  DeadlineTimer(const char* name, OnTime on_time);
  ~DeadlineTimer() { Stop(); }
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  void NoLaterThan(Time when) {
    if (when < planned_.load(std::memory_order_relaxed)) Replan(when);
  }

  // Returns when the thread has ended. Not from within `on_time`.
  void Stop();

 private:
  void Run();
  void Replan(Time when);

  const OnTime on_time_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Written with the lock held.
  std::atomic<Time> planned_{Time::max()};
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_DEADLINE_TIMER_H_
