#ifndef IDEMPOTENCY_SERVER_PROCESS_STREAM_WATCH_H_
#define IDEMPOTENCY_SERVER_PROCESS_STREAM_WATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"

#include "server/process/stream_rules.h"
#include "server/rpc/remote_address.h"
#include "server/service/periodic_thread.h"

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
  static constexpr absl::Duration kInterval = absl::Milliseconds(50);
  // Looking at the connections takes at most this part of one core.
  static constexpr int kLookShare = 4;

  StreamWatch(const StreamRules::Limits& limits, Callbacks callbacks);
  // Joins the thread.
  ~StreamWatch() = default;
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

 private:
  // Returns the pause before the next one.
  absl::Duration Look();
  // Calls that end before code sees them are among them for ever.
  std::int64_t Unseen() const;

  const StreamRules::Limits limits_;
  const Callbacks callbacks_;
  // The thread's own.
  StreamRules rules_;
  // Calls that no code has seen, at the fewest since the last look at the connections.
  std::int64_t expected_;
  std::chrono::steady_clock::time_point last_look_;

  PeriodicThread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_STREAM_WATCH_H_
