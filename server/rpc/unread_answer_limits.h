#ifndef IDEMPOTENCY_SERVER_RPC_UNREAD_ANSWER_LIMITS_H_
#define IDEMPOTENCY_SERVER_RPC_UNREAD_ANSWER_LIMITS_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "grpc_idempotency/deadline.h"
#include "server/queue/memory_budget.h"
#include "server/rpc/answers_by_host.h"
#include "server/rpc/oldest_unread.h"
#include "server/rpc/session_registry.h"
#include "server/rpc/unary_answers.h"

namespace idempotency::internal {

// Ends sessions and unary calls whose callers do not read their answers. Thread-safe.
class UnreadAnswerLimits {
 public:
  // `sessions` and `budget` outlive this. `first_call`, if any, is called once, when the first
  // session begins or a unary call is answered for the first time.
  UnreadAnswerLimits(SessionRegistry& sessions, MemoryBudget& budget,
                     std::function<void()> first_call = nullptr)
      : sessions_(sessions), budget_(budget), first_call_(std::move(first_call)) {}
  UnreadAnswerLimits(const UnreadAnswerLimits&) = delete;
  UnreadAnswerLimits& operator=(const UnreadAnswerLimits&) = delete;

  // A session begins; Send() does the same for a unary call.
  void CallBegins();
  // A unary call is about to be answered with `bytes` bytes. `reply` is their hold if the answer
  // contains a reply; otherwise it is empty, or of less.
  struct UnarySent {
    grpc::ServerContextBase& call;
    SteadyTime now;
    std::size_t bytes = 0;
    MemoryBudget::Hold reply;
  };
  // `answer` begins to be sent, and has a hold in the budget until it is destroyed.
  void Send(UnarySent sent, UnaryAnswer& answer);

  // Ends sessions and unary calls whose callers have not read for too long: where all have many
  // unread answers by the budget, those that have not read for longest, too.
  void EndStalled(SteadyTime now);
  // Ends those that have not read for the longest time, where the unread answers of all are more
  // than the budget has for them, or those of one host more than half of that. `added` bytes of
  // answers are coming.
  void MakeRoom(std::size_t added);

  AnswersByHost& answers() { return answers_; }

 private:
  // All calls are examined, which takes milliseconds, once for each 1 / kRoomShare of the pool.
  static constexpr std::size_t kRoomShare = 32;

  // Ends the oldest of the sessions for which `describe` returns a value, and of the unary answers
  // that were sent by `until`.
  using DescribeUnread = std::optional<UnreadAnswers> (SessionCall::*)();
  void EndOldest(DescribeUnread describe, SteadyTime until, std::size_t excess);

  SessionRegistry& sessions_;
  MemoryBudget& budget_;
  const std::function<void()> first_call_;
  std::atomic<bool> called_{false};
  AnswersByHost answers_;
  UnaryAnswers unary_;
  // Since MakeRoom() examined the calls.
  std::atomic<std::size_t> added_{0};
  std::atomic<bool> making_room_{false};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_UNREAD_ANSWER_LIMITS_H_
