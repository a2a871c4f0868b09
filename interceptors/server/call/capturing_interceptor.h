#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_CAPTURING_INTERCEPTOR_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_CAPTURING_INTERCEPTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/call/guarded_call.h"
#include "interceptors/server/call/other_interceptors.h"
#include "interceptors/server/execution/settlement.h"
#include "interceptors/server/reservation/reservation_client.h"

namespace idempotency::internal {

// Withholds a handler's reply until the store has acknowledged it. The first interceptor: after
// another one, a trailer that the other adds would be recorded, and added again on every
// replay.
//
// Does not wait inside Intercept: it returns gRPC's thread, and the thread that delivers the
// store's answer proceeds with the batch, or, if interceptors of the application's follow, passes
// it on. In the sync API the latter wait on the handler's own thread instead, as do streams, whose
// messages that thread sends. The context and the batch stay alive until the batch has proceeded;
// the interceptor, which may outlive them, does not use them afterwards.
class CapturingInterceptor final : public grpc::experimental::Interceptor {
 public:
  // `others` outlives the server.
  CapturingInterceptor(grpc::ServerContextBase* context, std::shared_ptr<GuardedCall> call,
                       const OtherInterceptors& others);
  ~CapturingInterceptor() override;

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override;

 private:
  using Batch = grpc::experimental::InterceptorBatchMethods;

  // Captures the handler's answer in parts: the initial metadata and the messages of a stream
  // may be sent before the status.
  void CaptureMessage(Batch& batch);
  void CaptureStatus(Batch& batch);
  void Settle(Batch& batch);
  // Settles, if the batch carries the status.
  void EndIfStatus(Batch& batch);
  // The call is not cancelled any more.
  void EndOrSettle(Batch& batch);
  // This thread must do everything until the batch has proceeded, and may wait.
  bool WaitsHere() const;
  void Finish(Batch& batch, const Settlement::Outcome& outcome);
  // Decides what the caller gets of a held-back stream; an error is sent in place of the
  // handler's status.
  absl::Status FinishHeldBack(Batch& batch, const Settlement::Outcome& outcome);
  // Sends `error` instead of the handler's status, and nothing of its reply.
  void Replace(Batch& batch, const absl::Status& error);
  // No record prevents that a retry of a handler's failure runs it again.
  static void ForbidRetries(Batch& batch);
  void Proceed(Batch& batch, absl::Time expires_at);
  // The batch with the status proceeds; the call is no longer found by its context.
  void End(Batch& batch);

  // Only compared after the reply is sent.
  grpc::ServerContextBase* const context_;
  const std::shared_ptr<GuardedCall> call_;
  const OtherInterceptors& others_;
  v1::Reply reply_;
  int code_ = 0;
};

// Creates the capturing interceptor for calls of guarded methods only: even an idle interceptor
// costs a call more than the guard itself. Thread-safe.
class InterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // gRPC provides a path, "/payments.v1.Payments/Charge", but no host.
  using Paths = absl::flat_hash_set<std::string>;

  // `guard` and `others` outlive it.
  InterceptorFactory(Paths paths, const ReservationClient& guard, const OtherInterceptors& others)
      : paths_(std::move(paths)), guard_(guard), others_(others) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    if (!paths_.contains(info->method())) return nullptr;
    // gRPC takes ownership.
    return std::make_unique<CapturingInterceptor>(info->server_context(),
                                                  std::make_shared<GuardedCall>(guard_), others_)
        .release();
  }

 private:
  const Paths paths_;
  const ReservationClient& guard_;
  const OtherInterceptors& others_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_CAPTURING_INTERCEPTOR_H_
