#ifndef IDEMPOTENCY_SERVER_QUEUE_MEMORY_BUDGET_H_
#define IDEMPOTENCY_SERVER_QUEUE_MEMORY_BUDGET_H_

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/mutex.h"
#include "server/observability/observer.h"
#include "server/queue/namespace_shares.h"

namespace idempotency::internal {

// The memory limit of everything that the service holds for its callers: requests of unary calls
// from before they are parsed, operations from their arrival until they are answered, those that
// wait for a running attempt, and answers until gRPC has written them, so that a caller that
// does not read fills this budget and not the machine.
//
// Answers that contain a reply, and waiters, have at most half of it: both can be
// requested again. So completions have the other half, even if callers do not read.
// Of that half a namespace takes at most as much as it leaves to the others (NamespaceShares).
//
// Operations that end work have the same shares, since nobody checks before the store whether they
// have a reservation: large replies of one namespace keep no other one's completions out. Replies,
// waiters and large operations leave an eighth of the budget to small ones that end work.
//
// Requests of administrators, which wait for one another, have a quarter, in shares of their own.
//
// Answers without a reply cannot be refused, so they do not count against operations that end
// admitted work: callers that do not read keep no lease from being extended. Those of gRPC calls
// have a pool of their own, a quarter, up to which they do not count against new work either.
// From half of it on, sessions with unread answers are not read; over it, calls are ended
// (UnreadAnswerLimits).
//
// The bound holds up to one reply: if no other is held, one is always admitted, so
// that the largest is not refused permanently.
//
// Thread-safe.
class MemoryBudget {
 public:
  // Bytes of the budget, returned by its destructor. Must not outlive the
  // budget.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept { *this = std::move(other); }
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { Release(); }

    std::size_t bytes() const { return bytes_; }
    // The held object became smaller.
    void ShrinkTo(std::size_t bytes);
    void Release() { ShrinkTo(0); }

   private:
    friend class MemoryBudget;
    enum class For { kRequest, kEndOfWork, kAdmin, kAnswer, kUnreadAnswers, kReply, kWaiter };

    Hold(MemoryBudget& budget, For held_for, std::string_view name_space, std::size_t bytes)
        : budget_(&budget), for_(held_for), name_space_(name_space), bytes_(bytes) {}

    MemoryBudget* budget_ = nullptr;
    For for_ = For::kRequest;
    std::string name_space_;
    std::size_t bytes_ = 0;
  };

  // `observer` must outlive this.
  MemoryBudget(std::size_t max_bytes, Observer& observer)
      : max_bytes_(max_bytes), observer_(observer) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // An operation of more bytes leaves the part of small ones free.
  static constexpr std::size_t kSmallOperationBytes = 64 * 1024;

  // For an operation on its way to the store and back; nullopt: there is no room. Those that bring
  // new work leave a fifth to those that end admitted work. The largest fits when it is alone.
  std::optional<Hold> TryHoldOperation(std::string_view name_space, std::size_t bytes,
                                       bool brings_work);
  // For a request, whose namespace is not known before it is parsed, until its operation is held;
  // nullopt: there is no room, and it must not be parsed.
  std::optional<Hold> TryHoldRequest(std::size_t bytes, bool brings_work);
  // Counts a request's hold to the `owner` of an administrator's call; false, and nothing happens,
  // if there is no room. The largest fits when it is alone.
  bool TryAssign(Hold& request, std::string_view owner) ABSL_LOCKS_EXCLUDED(mutex_);
  // For replies that the store has read, until their answers have a hold.
  void Add(std::size_t bytes);
  void Remove(std::size_t bytes);
  // For an answer with a reply; nullopt: it must not be made, and its caller must send
  // the operation again. `refusal`, if not null, is then kReplies if there would be room without
  // what the namespace holds itself, else kQueue.
  std::optional<Hold> TryHoldReply(std::string_view name_space, std::size_t bytes,
                                   ShedReason* refusal = nullptr);
  // For a call that waits; nullopt: it must be answered at once.
  std::optional<Hold> TryHoldWaiter(std::string_view name_space, std::size_t bytes);
  // For any other answer, which cannot be refused.
  Hold HoldAnswer(std::size_t bytes);
  // The same, for answers of a session or of a unary call.
  Hold HoldUnreadAnswers(std::size_t bytes);

  std::size_t unread_answers() const { return unread_answers_.load(std::memory_order_relaxed); }
  // The most that they should have.
  std::size_t unread_answers_pool() const { return max_bytes_ / kPoolShare; }
  // Whether they have more than half of it.
  bool UnreadAnswersAreMany() const { return unread_answers() > unread_answers_pool() / 2; }
  // The limit of one session then; it shrinks as the total grows.
  std::size_t UnreadAnswersAllowance() const;

  // Everything.
  std::size_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  // The pool is 1 / kPoolShare of the budget.
  static constexpr std::size_t kPoolShare = 4;
  // A session gets 1 / kAllowanceShare of what is left of half of the budget.
  static constexpr std::size_t kAllowanceShare = 64;

  // Administrators get 1 / kAdminShare of the budget.
  static constexpr std::size_t kAdminShare = 4;

  // 1 / kSmallOperationsShare of the budget is only for small operations that end work.
  static constexpr std::size_t kSmallOperationsShare = 8;

  // The bytes among them that count against operations that end work.
  std::size_t WithoutAnswers(std::size_t held) const;
  // The rest of the budget for an operation of `bytes` bytes that ends work.
  std::size_t LeftToEndOfWork(std::size_t held, std::size_t bytes) const;
  bool Fits(std::size_t held, std::size_t bytes, bool brings_work) const;
  bool TryAdd(std::size_t bytes, bool brings_work);
  // All but the part of small operations.
  std::size_t max_of_large() const { return max_bytes_ - max_bytes_ / kSmallOperationsShare; }
  std::optional<Hold> TryHold(Hold::For held_for, std::string_view name_space, std::size_t bytes,
                              ShedReason* refusal) ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(const Hold& hold, std::size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::size_t max_bytes_;
  Observer& observer_;
  std::atomic<std::size_t> held_{0};
  // Answers without a reply among them, and those of gRPC calls among these.
  std::atomic<std::size_t> answers_{0};
  std::atomic<std::size_t> unread_answers_{0};

  Mutex mutex_;
  // Replies and waiters.
  NamespaceShares shares_ ABSL_GUARDED_BY(mutex_);
  // Replies alone.
  std::size_t replies_ ABSL_GUARDED_BY(mutex_) = 0;
  // Operations that end work.
  NamespaceShares ends_of_work_ ABSL_GUARDED_BY(mutex_);
  // Requests of administrators.
  NamespaceShares admins_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_MEMORY_BUDGET_H_
