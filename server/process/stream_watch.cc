#include "server/process/stream_watch.h"

#include <algorithm>
#include <utility>

#include "server/process/socket_streams.h"

namespace idempotency::internal {

StreamWatch::StreamWatch(const StreamRules::Limits& limits, Callbacks callbacks)
    : limits_(limits),
      callbacks_(std::move(callbacks)),
      rules_(limits, {[](const SocketStreams& streams) { return RemoteAddressOf(streams); },
                      callbacks_.open_calls}),
      expected_(Unseen()),
      last_look_(std::chrono::steady_clock::now()),
      thread_("stream-watch", kInterval, [this] { return Look(); }) {}

absl::Duration StreamWatch::Look() {
  const std::int64_t unseen = Unseen();
  expected_ = std::min(expected_, unseen);
  if (unseen - expected_ < limits_.streams) return kInterval;
  expected_ = unseen;
  const auto now = std::chrono::steady_clock::now();
  const auto since = now - std::exchange(last_look_, now);
  for (const RemoteAddress& remote : rules_.Over(AllSocketStreams(), since)) {
    callbacks_.close(remote);
  }
  return std::max(kInterval, absl::FromChrono(std::chrono::steady_clock::now() - now) * kLookShare);
}

std::int64_t StreamWatch::Unseen() const { return CallsBegun() - callbacks_.arrived(); }

}  // namespace idempotency::internal
