#ifndef IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_
#define IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_

#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

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
  // Ends those whose callers have not read for too long.
  void EndStalled();

  // So many sessions are examined while others wait to begin or to end.
  static constexpr int kPerHold = 256;

 private:
  // Ends those for which `abandon` is true: without the lock, since that takes long.
  void EndEach(absl::FunctionRef<bool(SessionCall&)> abandon) ABSL_LOCKS_EXCLUDED(mutex_);

  Observer& observer_;
  Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t opened_ ABSL_GUARDED_BY(mutex_) = 0;
  // In the order in which they were opened, and the place of each.
  absl::btree_map<std::uint64_t, SessionCall*> streams_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<SessionCall*, std::uint64_t> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_
