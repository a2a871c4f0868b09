#include "server/idempotency_service.h"

#include <grpc/support/time.h>

#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/errors.h"
#include "core/grpc_status.h"
#include "core/idempotency_key.h"
#include "server/wire_request.h"
#include "server/wire_response.h"

namespace idempotency {
namespace {

// One RPC that is being answered: what is told and counted at its end is the
// same for every method. A value type, copied into the callbacks.
class Rpc {
 public:
  Rpc(OperationKind kind, grpc::CallbackServerContext* context, Observer& observer,
      const Clock& clock)
      : kind_(kind),
        context_(context),
        observer_(&observer),
        clock_(&clock),
        arrived_(clock.Monotonic()) {}

  // The caller's deadline on our clock.
  Batcher::Deadline deadline() const {
    const gpr_timespec at = context_->raw_deadline();
    // Saturates at 24 days.
    const int left_ms = gpr_time_to_millis(gpr_time_sub(at, gpr_now(at.clock_type)));
    if (left_ms == std::numeric_limits<int>::max()) return Batcher::kNoDeadline;
    return arrived_ + std::chrono::milliseconds(left_ms);
  }

  // Neither the context nor messages may be touched afterwards.
  void Finish(grpc::ServerUnaryReactor* reactor, const absl::Status& status) const {
    if (const std::optional<std::string> pushback = PushbackOf(status)) {
      context_->AddTrailingMetadata(std::string(kPushbackMetadata), *pushback);
    }
    observer_->RpcFinished(kind_, status, absl::FromChrono(clock_->Monotonic() - arrived_));
    reactor->Finish(ToGrpcStatus(status));
  }

  grpc::ServerUnaryReactor* Refuse(const absl::Status& status) const {
    grpc::ServerUnaryReactor* const reactor = context_->DefaultReactor();
    Finish(reactor, status);
    return reactor;
  }

 private:
  OperationKind kind_;
  grpc::CallbackServerContext* context_;
  Observer* observer_;
  const Clock* clock_;
  Batcher::Deadline arrived_;
};

// Reserve is the one method that may wait long enough to be cancelled.
class ReserveReactor final : public grpc::ServerUnaryReactor {
 public:
  ReserveReactor(const Rpc& rpc, WaitRoom& wait_room, Observer& observer, RetryAfterBounds bounds,
                 v1::ReserveResponse* response)
      : rpc_(rpc),
        wait_room_(wait_room),
        observer_(observer),
        bounds_(bounds),
        response_(response) {}

  // gRPC calls none of the reactions below before the method's handler has
  // returned, so the call is in place when they come.
  void Start(ReserveOp op, absl::Duration max_wait) {
    name_space_ = op.key.name_space;
    operation_ = op.key.operation;
    id_ = op.id;
    call_ =
        wait_room_.NewCall(std::move(op), rpc_.deadline(), max_wait,
                           [this](absl::StatusOr<Verdict> answer) { Answer(std::move(answer)); });
    wait_room_.Start(call_);
  }

  void OnCancel() override { wait_room_.Cancel(call_); }
  void OnDone() override { delete this; }

 private:
  void Answer(absl::StatusOr<Verdict> answer) {
    absl::Status status = answer.status();
    if (answer.ok()) status = WriteVerdict(*answer, id_, bounds_, *response_);
    if (status.ok()) observer_.VerdictGiven(*answer);
    if (answer.ok() && std::holds_alternative<Mismatch>(*answer)) {
      observer_.MismatchSeen(name_space_, operation_, id_);
    }
    rpc_.Finish(this, status);
  }

  const Rpc rpc_;
  WaitRoom& wait_room_;
  Observer& observer_;
  const RetryAfterBounds bounds_;
  v1::ReserveResponse* const response_;
  std::string name_space_;
  std::string operation_;
  RecordId id_;
  WaitRoom::CallPtr call_;
};

}  // namespace

IdempotencyService::IdempotencyService(Batcher& batcher, WaitRoom& wait_room, Observer& observer,
                                       const IdempotencyServiceOptions& options)
    : batcher_(batcher), wait_room_(wait_room), observer_(observer), options_(options) {}

grpc::ServerUnaryReactor* IdempotencyService::Reserve(grpc::CallbackServerContext* context,
                                                      const v1::ReserveRequest* request,
                                                      v1::ReserveResponse* response) {
  const Rpc rpc(OperationKind::kReserve, context, observer_, *options_.clock);
  absl::StatusOr<ReserveOp> op = ReserveOpFrom(*request, options_.window);
  if (!op.ok()) return rpc.Refuse(op.status());
  const absl::StatusOr<absl::Duration> max_wait = MaxWaitFrom(*request);
  if (!max_wait.ok()) return rpc.Refuse(max_wait.status());

  const RetryAfterBounds bounds{options_.min_retry_after, options_.max_retry_after};
  // It deletes itself in OnDone.
  auto* const reactor =
      std::make_unique<ReserveReactor>(rpc, wait_room_, observer_, bounds, response).release();
  reactor->Start(*std::move(op), *max_wait);
  return reactor;
}

grpc::ServerUnaryReactor* IdempotencyService::Complete(grpc::CallbackServerContext* context,
                                                       const v1::CompleteRequest* request,
                                                       v1::CompleteResponse* response) {
  const Rpc rpc(OperationKind::kComplete, context, observer_, *options_.clock);
  absl::StatusOr<CompleteOp> op = CompleteOpFrom(*request);
  if (!op.ok()) return rpc.Refuse(op.status());

  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const RecordId id = op->id;
  batcher_.Complete(*std::move(op), rpc.deadline(),
                    [this, rpc, reactor, response, id](const absl::StatusOr<Completion>& answer) {
                      // First, since the service may be gone once the RPC is finished.
                      if (answer.ok()) wait_room_.Moved(id);
                      if (answer.ok()) WriteCompletion(*answer, *response);
                      rpc.Finish(reactor, answer.status());
                    });
  return reactor;
}

grpc::ServerUnaryReactor* IdempotencyService::Release(grpc::CallbackServerContext* context,
                                                      const v1::ReleaseRequest* request,
                                                      v1::ReleaseResponse* /*response*/) {
  const Rpc rpc(OperationKind::kRelease, context, observer_, *options_.clock);
  absl::StatusOr<ReleaseOp> op = ReleaseOpFrom(*request);
  if (!op.ok()) return rpc.Refuse(op.status());

  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const RecordId id = op->id;
  batcher_.Release(*std::move(op), rpc.deadline(),
                   [this, rpc, reactor, id](const absl::Status& answer) {
                     if (answer.ok()) wait_room_.Moved(id);
                     rpc.Finish(reactor, answer);
                   });
  return reactor;
}

grpc::ServerUnaryReactor* IdempotencyService::Extend(grpc::CallbackServerContext* context,
                                                     const v1::ExtendRequest* request,
                                                     v1::ExtendResponse* response) {
  const Rpc rpc(OperationKind::kExtend, context, observer_, *options_.clock);
  absl::StatusOr<ExtendOp> op = ExtendOpFrom(*request);
  if (!op.ok()) return rpc.Refuse(op.status());

  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  batcher_.Extend(*std::move(op), rpc.deadline(),
                  [rpc, reactor, response](const absl::StatusOr<Extension>& answer) {
                    if (answer.ok()) WriteExtension(*answer, *response);
                    rpc.Finish(reactor, answer.status());
                  });
  return reactor;
}

grpc::ServerUnaryReactor* IdempotencyService::Get(grpc::CallbackServerContext* context,
                                                  const v1::GetRequest* request,
                                                  v1::GetResponse* response) {
  const Rpc rpc(OperationKind::kGet, context, observer_, *options_.clock);
  absl::StatusOr<GetOp> op = GetOpFrom(*request);
  if (!op.ok()) return rpc.Refuse(op.status());

  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const v1::RecordView view = request->view();
  batcher_.Get(*std::move(op), rpc.deadline(),
               [rpc, reactor, response, view](const absl::StatusOr<Record>& answer) {
                 rpc.Finish(reactor,
                            answer.ok() ? WriteRecord(*answer, view, *response) : answer.status());
               });
  return reactor;
}

}  // namespace idempotency
