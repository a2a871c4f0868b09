#ifndef IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_
#define IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

#include "core/mutex.h"
#include "server/observability/observer.h"
#include "server/queue/memory_budget.h"
#include "server/rpc/answers_by_host.h"
#include "server/rpc/oldest_unread.h"

namespace idempotency::internal {

class SessionCall;

// The open sessions, to notify all of them, and to end those whose callers do not read.
// Thread-safe.
class SessionRegistry {
 public:
  // `observer` must outlive this. `first_session`, if any, is called once, when the first session
  // begins.
  explicit SessionRegistry(Observer& observer, std::function<void()> first_session = nullptr)
      : observer_(observer), first_session_(std::move(first_session)) {}
  SessionRegistry(const SessionRegistry&) = delete;
  SessionRegistry& operator=(const SessionRegistry&) = delete;

  // True if the server is about to end; the session then notifies its caller
  // itself.
  bool Add(SessionCall* stream);
  // Waits while the stream is being notified.
  void Remove(SessionCall* stream);
  // Lets every session announce that the server is about to end.
  void Drain();
  // Ends those whose callers have not read for too long: where all have many unread answers by
  // `budget`, those that have not read for longest, too.
  void EndStalled(const MemoryBudget& budget);
  // Ends those that have not read for longest, where the unread answers of all are more than
  // `budget` has for them, or those of one host more than half of that. `added` bytes of answers
  // are coming.
  void MakeRoom(const MemoryBudget& budget, std::size_t added);

  AnswersByHost& answers() { return answers_; }

  // So many sessions are examined while others wait to begin or to end.
  static constexpr int kPerHold = 256;

 private:
  // All sessions are examined, which takes milliseconds, once for so much of the pool.
  static constexpr std::size_t kRoomShare = 32;

  // Ends those for which `abandon` is true: without the lock, since that takes long.
  void EndEach(absl::FunctionRef<bool(std::uint64_t place, SessionCall&)> abandon)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Of those that `describe` describes.
  using DescribeUnread = std::optional<UnreadSession> (SessionCall::*)();
  void EndOldest(DescribeUnread describe, std::size_t excess, std::size_t pool)
      ABSL_LOCKS_EXCLUDED(mutex_);

  Observer& observer_;
  const std::function<void()> first_session_;
  AnswersByHost answers_;
  // Since MakeRoom() examined the sessions.
  std::atomic<std::size_t> added_{0};
  std::atomic<bool> making_room_{false};
  Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t opened_ ABSL_GUARDED_BY(mutex_) = 0;
  // In the order in which they were opened, and the place of each.
  absl::btree_map<std::uint64_t, SessionCall*> streams_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<SessionCall*, std::uint64_t> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_
