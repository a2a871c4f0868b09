#include "postgres/socket_watchdog.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

namespace idempotency::internal {

SocketWatchdog::Target::Target(int socket)
    : descriptor_(socket < 0 ? -1 : fcntl(socket, F_DUPFD_CLOEXEC, 0)) {}

SocketWatchdog::Target::~Target() {
  if (valid()) close(descriptor_);
}

SocketWatchdog::Watch::Watch(SocketWatchdog& watchdog, const Target& target, TimePoint deadline)
    : watchdog_(watchdog), target_(target) {
  MutexLock lock(watchdog_.mutex_);
  place_ = watchdog_.watches_.emplace(deadline, this);
  if (deadline < watchdog_.wakes_at_) watchdog_.changed_.NotifyOne();
}

SocketWatchdog::Watch::~Watch() {
  MutexLock lock(watchdog_.mutex_);
  if (!expired_) watchdog_.watches_.erase(place_);
}

bool SocketWatchdog::Watch::expired() const {
  MutexLock lock(watchdog_.mutex_);
  return expired_;
}

void SocketWatchdog::Watch::Renew(TimePoint deadline) {
  MutexLock lock(watchdog_.mutex_);
  if (expired_) return;
  watchdog_.watches_.erase(place_);
  place_ = watchdog_.watches_.emplace(deadline, this);
}

SocketWatchdog::SocketWatchdog() : thread_([this] { Run(); }) {}

SocketWatchdog::~SocketWatchdog() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

void SocketWatchdog::Run() {
  pthread_setname_np(pthread_self(), "socket-watchdog");
  MutexLock lock(mutex_);
  while (!stopping_) {
    ShutDownLate(std::chrono::steady_clock::now());
    if (watches_.empty()) {
      wakes_at_ = TimePoint::max();
      changed_.Wait(lock);
    } else {
      wakes_at_ = watches_.begin()->first;
      changed_.WaitUntil(lock, wakes_at_);
    }
  }
}

void SocketWatchdog::ShutDownLate(TimePoint now) {
  while (!watches_.empty() && watches_.begin()->first <= now) {
    Watch& late = *watches_.begin()->second;
    shutdown(late.target_.descriptor_, SHUT_RDWR);
    late.expired_ = true;
    watches_.erase(watches_.begin());
  }
}

}  // namespace idempotency::internal
