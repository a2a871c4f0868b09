#ifndef IDEMPOTENCY_SERVER_SERVICE_UNREAD_ANSWER_WATCH_H_
#define IDEMPOTENCY_SERVER_SERVICE_UNREAD_ANSWER_WATCH_H_

#include <optional>

#include "absl/time/time.h"

#include "core/mutex.h"
#include "server/rpc/idempotency_service.h"
#include "server/service/periodic_thread.h"

namespace idempotency::internal {

// A thread that ends calls whose callers do not read their answers: HTTP/2 acknowledges pings of
// such a connection, so that no timeout of the transport ends it. It also has sessions renewed
// whose callers' credentials end soon. A service without a call needs none.
//
// Thread-safe.
class UnreadAnswerWatch {
 public:
  // A call ends late by this at most.
  static constexpr absl::Duration kInterval = absl::Seconds(2);

  // `service` outlives it.
  explicit UnreadAnswerWatch(IdempotencyService& service, absl::Duration interval = kInterval)
      : service_(service), interval_(interval) {}
  ~UnreadAnswerWatch() { Stop(); }
  UnreadAnswerWatch(const UnreadAnswerWatch&) = delete;
  UnreadAnswerWatch& operator=(const UnreadAnswerWatch&) = delete;

  // Starts the thread, once, unless it is stopped.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);
  // Joins the thread.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  IdempotencyService& service_;
  const absl::Duration interval_;

  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<PeriodicThread> thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_UNREAD_ANSWER_WATCH_H_
