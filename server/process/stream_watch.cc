#include "server/process/stream_watch.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "server/process/socket_streams.h"

namespace idempotency::internal {

StreamWatch::StreamWatch(const StreamRules::Limits& limits, Callbacks callbacks)
    : limits_(limits),
      callbacks_(std::move(callbacks)),
      rules_(limits, {[](const SocketStreams& streams) { return RemoteAddressOf(streams); },
                      callbacks_.open_calls}),
      thread_([this] {
        pthread_setname_np(pthread_self(), "stream-watch");
        Run();
      }) {}

StreamWatch::~StreamWatch() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    stopped_changed_.NotifyAll();
  }
  thread_.join();
}

void StreamWatch::Run() {
  using Clock = std::chrono::steady_clock;
  std::int64_t expected = Unseen();
  Clock::time_point last_look = Clock::now();
  Clock::duration pause = kInterval;
  while (!AwaitStop(pause)) {
    pause = kInterval;
    const std::int64_t unseen = Unseen();
    expected = std::min(expected, unseen);
    if (unseen - expected < limits_.streams) continue;
    expected = unseen;
    const Clock::time_point now = Clock::now();
    const Clock::duration since = now - std::exchange(last_look, now);
    for (const RemoteAddress& remote : rules_.Over(AllSocketStreams(), since)) {
      callbacks_.close(remote);
    }
    pause = std::max(pause, (Clock::now() - now) * kLookShare);
  }
}

bool StreamWatch::AwaitStop(std::chrono::steady_clock::duration time) {
  const auto until = std::chrono::steady_clock::now() + time;
  MutexLock lock(mutex_);
  while (!stopped_ && stopped_changed_.WaitUntil(lock, until)) {
  }
  return stopped_;
}

std::int64_t StreamWatch::Unseen() const { return CallsBegun() - callbacks_.arrived(); }

}  // namespace idempotency::internal
