#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_CAPTURING_INTERCEPTOR_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_CAPTURING_INTERCEPTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/call/guarded_call.h"
#include "interceptors/server/execution/settlement.h"

namespace idempotency::internal {

// Holds a handler's reply back until the store has acknowledged it. First in
// line: behind another interceptor, a trailer that one adds would be recorded
// and added again on every replay.
//
// Never waits inside Intercept: gRPC's thread goes on, and the batch proceeds
// from the thread that brings the store's answer. (A stream of the sync API is
// the exception: there it waits on the handler's own thread.) The context and the batch
// stay alive until it has proceeded; afterwards they are not touched, since
// the interceptor may outlive them.
class CapturingInterceptor final : public grpc::experimental::Interceptor {
 public:
  CapturingInterceptor(grpc::ServerContextBase* context, std::shared_ptr<GuardedCall> call);
  ~CapturingInterceptor() override;

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override;

 private:
  using Batch = grpc::experimental::InterceptorBatchMethods;

  // Takes what the handler answered, as it comes: the initial metadata and the
  // messages of a stream may go out ahead of the status.
  void CaptureMessage(Batch& batch);
  void CaptureStatus(Batch& batch);
  void Settle(Batch& batch);
  // Settles, if the batch carries the status.
  void EndIfStatus(Batch& batch);
  void Finish(Batch& batch, const Settlement::Outcome& outcome);
  // What of a pending-back stream the caller gets; an error goes out in place of
  // the handler's status.
  absl::Status FinishHeldBack(Batch& batch, const Settlement::Outcome& outcome);
  // Sends `error` in the handler's place, and nothing of its reply.
  void Replace(Batch& batch, const absl::Status& error);
  void Proceed(Batch& batch, absl::Time expires_at);

  // Only compared once the reply has gone.
  grpc::ServerContextBase* const context_;
  const std::shared_ptr<GuardedCall> call_;
  v1::Reply reply_;
  int code_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_CAPTURING_INTERCEPTOR_H_
