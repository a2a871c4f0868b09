#include "server/process/stream_watch.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace idempotency::internal {
namespace {

// Streams end here a little later than the client may take them to have ended.
constexpr int kOpenFactor = 2;
// A client that keeps to the limit, and cancels all that it has, would have to do so this often
// within one interval.
constexpr int kFailedFactor = 4;

}  // namespace

StreamWatch::StreamWatch(int max_streams, Close close)
    : max_streams_(max_streams), close_(std::move(close)), thread_([this] {
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
  std::int64_t seen = 0;
  std::chrono::steady_clock::duration pause = kInterval;
  while (!AwaitStop(pause)) {
    pause = kInterval;
    const std::int64_t begun = CallsBegun();
    if (begun - seen < max_streams_) continue;
    seen = begun;
    const auto from = std::chrono::steady_clock::now();
    Look();
    pause = std::max(pause, (std::chrono::steady_clock::now() - from) * kLookShare);
  }
}

bool StreamWatch::AwaitStop(std::chrono::steady_clock::duration time) {
  const auto until = std::chrono::steady_clock::now() + time;
  MutexLock lock(mutex_);
  while (!stopped_ && stopped_changed_.WaitUntil(lock, until)) {
  }
  return stopped_;
}

void StreamWatch::Look() {
  std::map<RemoteAddress, std::int64_t> failed;
  for (const SocketStreams& streams : AllSocketStreams()) {
    if (IsOver(streams)) close_(streams.remote);
    failed.emplace(streams.remote, streams.failed);
  }
  failed_.swap(failed);
}

bool StreamWatch::IsOver(const SocketStreams& streams) const {
  if (streams.begun - streams.answered - streams.failed > kOpenFactor * max_streams_) return true;
  const auto before = failed_.find(streams.remote);
  return before != failed_.end() && streams.failed - before->second > kFailedFactor * max_streams_;
}

}  // namespace idempotency::internal
