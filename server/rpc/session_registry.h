#ifndef IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_
#define IDEMPOTENCY_SERVER_RPC_SESSION_REGISTRY_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

#include "core/mutex.h"
#include "grpc_idempotency/deadline.h"
#include "server/observability/observer.h"
#include "server/queue/memory_budget.h"
#include "server/rpc/answers_by_host.h"
#include "server/rpc/oldest_unread.h"
#include "server/rpc/unary_answers.h"

namespace idempotency::internal {

class SessionCall;

// The open sessions: notifies all of them, and ends sessions and unary calls whose callers do not
// read. Thread-safe.
class SessionRegistry {
 public:
  // `observer` must outlive this. `first_call`, if any, is called once, when the first session
  // begins or a unary call is answered for the first time.
  explicit SessionRegistry(Observer& observer, std::function<void()> first_call = nullptr)
      : observer_(observer), first_call_(std::move(first_call)) {}
  SessionRegistry(const SessionRegistry&) = delete;
  SessionRegistry& operator=(const SessionRegistry&) = delete;

  // True if the server is about to end; the session then notifies its caller
  // itself.
  bool Add(SessionCall* stream);
  // Waits while this stream is visited, and for no other.
  void Remove(SessionCall* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets every session announce that the server is about to end.
  void Drain();
  // A unary call is about to be answered with `bytes` bytes. `reply` is their hold if the answer
  // contains a reply; otherwise it is empty, or of less.
  struct UnarySent {
    grpc::ServerContextBase& call;
    SteadyTime now;
    std::size_t bytes = 0;
    MemoryBudget::Hold reply;
  };
  // `answer` begins to be sent, and has a hold in `budget` until it is destroyed.
  void Send(UnarySent sent, MemoryBudget& budget, UnaryAnswer& answer);

  // Lets every session whose caller's credentials are about to end announce that another one must
  // be opened.
  void AnnounceRenewals();
  // Ends sessions and unary calls whose callers have not read for too long: where all have many
  // unread answers by `budget`, those that have not read for longest, too.
  void EndStalled(const MemoryBudget& budget, SteadyTime now);
  // Ends those that have not read for the longest time, where the unread answers of all are more
  // than `budget` has for them, or those of one host more than half of that. `added` bytes of
  // answers are coming.
  void MakeRoom(const MemoryBudget& budget, std::size_t added);

  // Visits every session in the order in which they were opened, and not those that are opened
  // meanwhile. Others begin and end during a visit: it may verify a signature, or write. Sessions
  // for which `abandon` returns true have been abandoned, and are ended.
  using Visit = absl::FunctionRef<bool(std::uint64_t place, SessionCall&)>;
  void ForEach(Visit abandon) ABSL_LOCKS_EXCLUDED(mutex_);

  AnswersByHost& answers() { return answers_; }

 private:
  // All calls are examined, which takes milliseconds, once for each 1 / kRoomShare of the pool.
  static constexpr std::size_t kRoomShare = 32;

  void CallBegins();
  // Returns the first session that was opened at `place` or later, and before `end`; null if there
  // is none. The session stays until VisitEnds(). `place` becomes its place.
  SessionCall* BeginVisit(std::uint64_t& place, std::uint64_t end) ABSL_LOCKS_EXCLUDED(mutex_);
  void VisitEnds(std::uint64_t place) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the oldest of the sessions for which `describe` returns a value, and of the unary answers
  // that were sent by `until`.
  using DescribeUnread = std::optional<UnreadAnswers> (SessionCall::*)();
  void EndOldest(DescribeUnread describe, SteadyTime until, std::size_t excess, std::size_t pool)
      ABSL_LOCKS_EXCLUDED(mutex_);

  Observer& observer_;
  const std::function<void()> first_call_;
  std::atomic<bool> called_{false};
  AnswersByHost answers_;
  UnaryAnswers unary_;
  // Since MakeRoom() examined the calls.
  std::atomic<std::size_t> added_{0};
  std::atomic<bool> making_room_{false};
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
