#ifndef IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_
#define IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_

#include <vector>

#include "core/mutex.h"
#include "server/observability/observer.h"

namespace idempotency::internal {

class SessionCall;

// The open sessions, to notify all of them. Thread-safe.
class SessionRegistry {
 public:
  // `observer` must outlive this.
  explicit SessionRegistry(Observer& observer) : observer_(observer) {}
  SessionRegistry(const SessionRegistry&) = delete;
  SessionRegistry& operator=(const SessionRegistry&) = delete;

  // True if the server is about to end; the session then notifies its caller
  // itself.
  bool Add(SessionCall* stream);
  // Waits while the stream is being notified.
  void Remove(SessionCall* stream);
  // Lets every session announce that the server is about to end.
  void Drain();

 private:
  Observer& observer_;
  Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  // In the order in which they were opened.
  std::vector<SessionCall*> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_
