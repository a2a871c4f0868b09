#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_CALL_H_

#include <memory>
#include <utility>

#include "grpc_idempotency/server_guard/method_policy.h"
#include "interceptors/server/call/call_canceller.h"
#include "interceptors/server/call/guarded_stream.h"
#include "interceptors/server/execution/live_execution.h"

namespace idempotency::internal {

class ReservationClient;

// One call of a guarded method, shared by its admitter and its interceptor.
//
// The admitter writes it before the handler runs or an answer is sent, and the handler and the
// interceptor read it afterwards; in between gRPC passes the call on with a lock.
class GuardedCall {
 public:
  // Only the call's admitter has its method: the same path may be served on several hosts.
  // Until then the call belongs to a guard, which its reservations identify.
  explicit GuardedCall(const ReservationClient& owner) : owner_(owner) {}

  bool IsOf(const ReservationClient& guard) const { return &owner_ == &guard; }

  void MarkSync() { sync_ = true; }
  // A call of the sync API: its reply comes from a thread of its own, which may wait.
  bool sync() const { return sync_; }

  // The handler will run, under this reservation. `stream` is nullptr for a
  // unary call.
  void Begin(std::shared_ptr<LiveExecution> execution, std::shared_ptr<GuardedStream> stream) {
    execution_ = std::move(execution);
    stream_ = std::move(stream);
  }
  // The handler will not run after all.
  std::shared_ptr<LiveExecution> Withdraw() {
    stream_ = nullptr;
    return std::move(execution_);
  }
  // nullptr unless the handler runs under a reservation.
  const std::shared_ptr<LiveExecution>& execution() const { return execution_; }
  // nullptr unless, in addition, its replies are a stream.
  const std::shared_ptr<GuardedStream>& stream() const { return stream_; }

  // Cancels the call while its handler runs; thread-safe.
  CallCanceller& canceller() { return canceller_; }

  // The handler runs without a record. `policy` outlives the call.
  void MarkUnguarded(const MethodPolicy& policy) { unguarded_ = &policy; }
  // The policy of a method whose handler runs without a record; otherwise nullptr.
  const MethodPolicy* unguarded() const { return unguarded_; }

  // The stored reply was OK and had no message: none must be sent.
  void OmitMessage() { omit_message_ = true; }
  bool omits_message() const { return omit_message_; }

 private:
  // Only compared: it identifies the guard.
  const ReservationClient& owner_;
  std::shared_ptr<LiveExecution> execution_;
  std::shared_ptr<GuardedStream> stream_;
  CallCanceller canceller_;
  bool sync_ = false;
  bool omit_message_ = false;
  const MethodPolicy* unguarded_ = nullptr;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_CALL_H_
