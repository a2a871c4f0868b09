#ifndef IDEMPOTENCY_SERVER_SERVICE_SESSION_WATCH_H_
#define IDEMPOTENCY_SERVER_SERVICE_SESSION_WATCH_H_

#include <thread>

#include "absl/time/time.h"

#include "server/rpc/idempotency_service.h"
#include "server/service/stop_latch.h"

namespace idempotency::internal {

// A thread that ends sessions whose callers do not read their answers: HTTP/2 acknowledges pings of
// such a connection, so that no timeout of the transport ends it.
//
// Thread-compatible: one thread owns it.
class SessionWatch {
 public:
  // A session ends late by this at most.
  static constexpr absl::Duration kInterval = absl::Seconds(2);

  // `service` outlives it.
  explicit SessionWatch(IdempotencyService& service, absl::Duration interval = kInterval);
  ~SessionWatch();
  SessionWatch(const SessionWatch&) = delete;
  SessionWatch& operator=(const SessionWatch&) = delete;

 private:
  StopLatch stop_;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_SESSION_WATCH_H_
