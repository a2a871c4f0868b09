#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_SOCKET_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_SOCKET_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"

#include "server/store/redis/options.h"

namespace idempotency::internal {

// A connection to a server, with TLS or without. Never blocks once it is connected: hiredis of
// Debian 12 has no TLS, and its timeouts bound a read, not a call.
//
// Thread-compatible.
class RedisSocket {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  enum class Outcome { kMoved, kWantsRead, kWantsWrite, kClosed };
  struct Progress {
    Outcome outcome = Outcome::kClosed;
    std::size_t bytes = 0;
  };

  virtual ~RedisSocket() = default;

  // Connected, and with TLS after its handshake, by the deadline; otherwise UNAVAILABLE with the
  // reason. Resolving a name is bounded by the system's resolver only.
  static absl::StatusOr<std::unique_ptr<RedisSocket>> Connect(const RedisAddress& address,
                                                              const RedisOptions& options,
                                                              TimePoint deadline);

  virtual int descriptor() const = 0;
  virtual Progress Write(std::string_view bytes) = 0;
  virtual Progress Read(char* into, std::size_t size) = 0;
};

// Waits for the events of poll() on a descriptor; false at the deadline.
bool WaitFor(int descriptor, short events, RedisSocket::TimePoint deadline);
// For poll(): the milliseconds until then, rounded up, 0 once it has passed.
// When an attempt to connect ends, so that each of the `addresses` left of a host gets its turn
// before the deadline.
RedisSocket::TimePoint EndOfAttempt(RedisSocket::TimePoint now, RedisSocket::TimePoint deadline,
                                    int addresses);
int MillisecondsUntil(RedisSocket::TimePoint deadline);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_SOCKET_H_
