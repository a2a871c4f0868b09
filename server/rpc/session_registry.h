#ifndef IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_
#define IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

#include "core/mutex.h"
#include "server/observability/observer.h"

namespace idempotency::internal {

class SessionCall;

// The open sessions: notifies all of them. Thread-safe.
class SessionRegistry {
 public:
  // `observer` must outlive this.
  explicit SessionRegistry(Observer& observer) : observer_(observer) {}
  SessionRegistry(const SessionRegistry&) = delete;
  SessionRegistry& operator=(const SessionRegistry&) = delete;

  // True if the server is about to end; the session then notifies its caller
  // itself.
  bool Add(SessionCall* stream);
  // Waits while this stream is visited, and for no other.
  void Remove(SessionCall* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets every session announce that the server is about to end.
  void Drain();
  // Lets every session whose caller's credentials are about to end announce that another one must
  // be opened.
  void AnnounceRenewals();

  // Visits every session in the order in which they were opened, and not those that are opened
  // meanwhile. Others begin and end during a visit: it may verify a signature, or write. Sessions
  // for which `abandon` returns true have been abandoned, and are ended.
  using Visit = absl::FunctionRef<bool(std::uint64_t place, SessionCall&)>;
  void ForEach(Visit abandon) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Returns the first session that was opened at `place` or later, and before `end`; null if there
  // is none. The session stays until VisitEnds(). `place` becomes its place.
  SessionCall* BeginVisit(std::uint64_t& place, std::uint64_t end) ABSL_LOCKS_EXCLUDED(mutex_);
  void VisitEnds(std::uint64_t place) ABSL_LOCKS_EXCLUDED(mutex_);

  Observer& observer_;
  Mutex mutex_;
  CondVar visit_ended_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t opened_ ABSL_GUARDED_BY(mutex_) = 0;
  // In the order in which they were opened, and the place of each.
  absl::btree_map<std::uint64_t, SessionCall*> streams_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<SessionCall*, std::uint64_t> places_ ABSL_GUARDED_BY(mutex_);
  // The places of those that are visited, one for each thread that does.
  std::vector<std::uint64_t> visited_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_
