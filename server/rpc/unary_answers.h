#ifndef IDEMPOTENCY_SERVER_RPC_UNARY_ANSWERS_H_
#define IDEMPOTENCY_SERVER_RPC_UNARY_ANSWERS_H_

#include <grpcpp/server_context.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/limits.h"
#include "server/queue/memory_budget.h"
#include "server/rpc/answers_by_host.h"
#include "server/rpc/oldest_unread.h"

namespace idempotency::internal {

class UnaryAnswers;

// The answer of a unary call, from right before it is sent until the call is over: its part of the
// memory budget, and its place among those that may be ended. Thread-compatible.
class UnaryAnswer {
 public:
  UnaryAnswer() = default;
  // Waits while the call is being ended.
  ~UnaryAnswer();
  UnaryAnswer(const UnaryAnswer&) = delete;
  UnaryAnswer& operator=(const UnaryAnswer&) = delete;

 private:
  friend class UnaryAnswers;
  // The state of the call.
  enum class State { kUnread, kEnding, kEnded };

  UnaryAnswers* owner_ = nullptr;
  grpc::ServerContextBase* call_ = nullptr;
  std::uint64_t place_ = 0;
  SteadyTime since_;
  std::size_t bytes_ = 0;
  MemoryBudget::Hold hold_;
  // With the bytes of `others_` among its own; null: not counted by host.
  std::shared_ptr<HostAnswers> host_;
  std::size_t others_ = 0;
  // Under the mutex of the owner.
  State state_ = State::kUnread;
};

// The answers of unary calls that gRPC has not written. Thread-safe.
class UnaryAnswers {
 public:
  UnaryAnswers() = default;
  // None is left.
  ~UnaryAnswers() = default;
  UnaryAnswers(const UnaryAnswers&) = delete;
  UnaryAnswers& operator=(const UnaryAnswers&) = delete;

  // `hold` is that of its `bytes`: of a reply, or, with `others` bytes of `host` and of the pool,
  // of an answer without one. `call` and this outlive the answer.
  struct Sent {
    grpc::ServerContextBase& call;
    SteadyTime now;
    std::size_t bytes = 0;
    MemoryBudget::Hold hold;
    std::shared_ptr<HostAnswers> host;
    std::size_t others = 0;
  };
  void Add(UnaryAnswer& answer, Sent sent) ABSL_LOCKS_EXCLUDED(mutex_);

  // Appends the unread answers without a reply that began to be sent by `until`.
  void AppendUnread(SteadyTime until, std::vector<UnreadAnswers>& all) ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels those whose place `ends` accepts.
  void End(absl::FunctionRef<bool(std::uint64_t place)> ends) ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels those that were not read within limits::kPeerTimeout, or within that time for each
  // limits::kMaxAnswerFrameBytes, as a session's.
  void EndStalled(SteadyTime now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class UnaryAnswer;
  // The number of answers that are examined while others wait to begin or to end.
  static constexpr int kPerHold = 256;

  void Remove(UnaryAnswer& answer) ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels those for which `ends` returns true, unless they are cancelled already. Without the
  // lock, since that takes long.
  void ForEach(absl::FunctionRef<bool(const UnaryAnswer&)> ends) ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  CondVar ended_;
  std::uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  // In the order in which they began to be sent.
  absl::btree_map<std::uint64_t, UnaryAnswer*> answers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_UNARY_ANSWERS_H_
