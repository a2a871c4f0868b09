#ifndef IDEMPOTENCY_POSTGRES_SOCKET_WATCHDOG_H_
#define IDEMPOTENCY_POSTGRES_SOCKET_WATCHDOG_H_

#include <chrono>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"

#include "core/mutex.h"

namespace idempotency::internal {

// Bounds calls into a library that blocks on a socket and has no timeout of its
// own: a socket whose call is late is shut down, and the call fails as if the
// peer had closed it.
//
// Thread-safe. Owns one thread for any number of calls, and that thread sleeps
// through calls that end in time. Outlives its watches.
class SocketWatchdog {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A second descriptor for a socket. The library may close its own within the
  // call, and the number may name another socket by the time the call is late.
  class Target {
   public:
    // -1, or a socket that cannot be duplicated: valid() is false.
    explicit Target(int socket);
    ~Target();
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;

    bool valid() const { return descriptor_ >= 0; }
    // To wait for the socket: stays open when the library closes its own.
    int descriptor() const { return descriptor_; }

   private:
    friend class SocketWatchdog;
    const int descriptor_;
  };

  // One call, from construction to destruction. Thread-compatible.
  class Watch {
   public:
    // `target` outlives the watch.
    Watch(SocketWatchdog& watchdog, const Target& target, TimePoint deadline);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // Whether the socket was shut down.
    bool expired() const;
    // The call has a later deadline from now on, unless it is late already.
    void Renew(TimePoint deadline);

   private:
    friend class SocketWatchdog;
    SocketWatchdog& watchdog_;
    const Target& target_;
    std::multimap<TimePoint, Watch*>::iterator place_;
    bool expired_ = false;  // guarded by the watchdog's mutex
  };

  SocketWatchdog();
  ~SocketWatchdog();
  SocketWatchdog(const SocketWatchdog&) = delete;
  SocketWatchdog& operator=(const SocketWatchdog&) = delete;

 private:
  void Run();
  void ShutDownLate(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  std::multimap<TimePoint, Watch*> watches_ ABSL_GUARDED_BY(mutex_);
  // The time of the thread's next check. It is not notified of calls that end,
  // nor of calls that are due later: under steady load it is never woken.
  TimePoint wakes_at_ ABSL_GUARDED_BY(mutex_) = TimePoint::min();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_POSTGRES_SOCKET_WATCHDOG_H_
