#ifndef IDEMPOTENCY_SERVER_PROCESS_STREAM_WATCH_H_
#define IDEMPOTENCY_SERVER_PROCESS_STREAM_WATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>

#include "core/mutex.h"
#include "server/process/remote_address.h"
#include "server/process/socket_streams.h"

namespace idempotency::internal {

// Finds connections whose client does not keep to the number of streams that the server allows.
// gRPC 1.51 enforces it only once the client has acknowledged it; and a stream that the client
// resets at once leaves a call behind. Such calls come faster than any code can refuse them, and
// the thread that would refuse them reads frames instead, so this has a thread of its own.
//
// Thread-safe.
class StreamWatch {
 public:
  // Called on its thread for each of them; may be called again for one.
  using Close = std::function<void(const RemoteAddress&)>;

  // Between two looks at the number of calls; connections are looked at only when there were many.
  static constexpr std::chrono::milliseconds kInterval{100};
  // A look at the connections takes at most this part of one core.
  static constexpr int kLookShare = 20;

  StreamWatch(int max_streams, Close close);
  // Joins the thread.
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

 private:
  void Run();
  bool AwaitStop(std::chrono::steady_clock::duration time) ABSL_LOCKS_EXCLUDED(mutex_);
  void Look();
  bool IsOver(const SocketStreams& streams) const;

  const int max_streams_;
  const Close close_;
  // The thread's own: those that had failed at the last look.
  std::map<RemoteAddress, std::int64_t> failed_;

  Mutex mutex_;
  CondVar stopped_changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_STREAM_WATCH_H_
