#ifndef IDEMPOTENCY_SERVER_PROCESS_STREAM_WATCH_H_
#define IDEMPOTENCY_SERVER_PROCESS_STREAM_WATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "core/mutex.h"
#include "server/process/stream_rules.h"
#include "server/rpc/remote_address.h"

namespace idempotency::internal {

// Bounds the calls that gRPC has begun and that no code has seen yet, by closing connections
// (StreamRules). They come faster than any code can refuse them, and the thread that would refuse
// them reads frames instead, so this has a thread of its own.
//
// Thread-safe.
class StreamWatch {
 public:
  struct Callbacks {
    // Closes a connection of the listener; nothing if it is another's. May be called again for one.
    std::function<void(const RemoteAddress&)> close;
    // All calls that code of the process has seen so far.
    std::function<std::int64_t()> arrived;
    // The calls of a host that code of the process has seen and that have not ended.
    std::function<int(const std::string& host)> open_calls;
  };

  // Between two looks at the numbers of calls; connections are looked at only where code has fallen
  // behind by as many calls as one may have.
  static constexpr std::chrono::milliseconds kInterval{50};
  // Looking at the connections takes at most this part of one core.
  static constexpr int kLookShare = 4;

  StreamWatch(const StreamRules::Limits& limits, Callbacks callbacks);
  // Joins the thread.
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

 private:
  void Run();
  bool AwaitStop(std::chrono::steady_clock::duration time) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls that end before code sees them are among them for ever.
  std::int64_t Unseen() const;

  const StreamRules::Limits limits_;
  const Callbacks callbacks_;
  // The thread's own.
  StreamRules rules_;

  Mutex mutex_;
  CondVar stopped_changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_STREAM_WATCH_H_
