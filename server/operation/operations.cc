#include "server/operation/operations.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "server/operation/admin_place.h"
#include "server/operation/failed_read.h"
#include "server/operation/operation_span.h"
#include "server/operation/wire_request.h"
#include "server/operation/wire_response.h"
#include "server/queue/answer_batch_scope.h"

namespace idempotency::internal {

namespace {

// A reply in a message, and its bytes as gRPC sends them.
constexpr std::size_t kCopiesOfAReply = 2;

Permission PermissionFor(v1::RecordView view) {
  return view == v1::RECORD_VIEW_FULL ? Permission::kReadContent : Permission::kRead;
}

}  // namespace

// The callbacks below hold two pointers at most: as much as std::function keeps
// without memory of its own.

Operations::Operations(Batcher& batcher, InFlightWaiters& waiters, Observer& observer,
                       const OperationsOptions& options)
    : batcher_(batcher), waiters_(waiters), observer_(observer), options_(options) {}

void Operations::Reserve(const v1::ReserveRequest& request,
                         PendingResponse<v1::ReserveResponse>& pending, Batcher::Group* group) {
  absl::StatusOr<ReserveOp> op = ReserveOpFrom(request, options_.window);
  if (!op.ok()) return Refuse(pending, op.status());
  op->relaxed = op->relaxed && options_.relaxed_reservations;
  if (const absl::Status denied = Check(pending, op->key, Permission::kWrite); !denied.ok()) {
    return Refuse(pending, denied);
  }
  absl::StatusOr<absl::Duration> max_wait = MaxWaitFrom(request);
  if (!max_wait.ok()) return Refuse(pending, max_wait.status());
  if (options_.tenants != nullptr) {
    absl::StatusOr<Tenants::Place> place = options_.tenants->AdmitReservation(
        *op, {request.has_lease(), request.has_retention()}, *max_wait);
    if (!place.ok()) return Refuse(pending, place.status());
    pending.place_ = *std::move(place);
  }
  if (options_.tracer != nullptr) {
    if (!pending.has_span()) StartSpan(TraceparentLabel(request), pending);
    DescribeRecord(op->key, op->id, pending.span_.get());
  }
  pending.request_hold_.Release();
  pending.id_ = op->id;
  pending.max_reply_bytes_ = request.max_reply_bytes();
  // A copy: the operation may be over, and destroyed, before Start() returns.
  const InFlightWaiters::WaiterPtr call = waiters_.NewWaiter(
      *std::move(op), pending.deadline_, *max_wait,
      [this, &pending](const absl::StatusOr<Verdict>& answer) {
        const AnswerBatchScope scope;
        Finish(pending, Write(answer, pending));
      },
      pending.trace());
  pending.waiting_ = call;
  waiters_.Start(call, group);
}

absl::Status Operations::WithLimit(const absl::Status& error,
                                   const PendingResponse<v1::ReserveResponse>& pending) const {
  if (ReasonOf(error) != Reason::kQuotaExceeded) return error;
  const std::string& name_space = InFlightWaiters::OpOf(pending.waiting_).key.name_space;
  if (!pending.place_.out_of_bounds().ok()) {
    return options_.tenants->RefuseRetention(name_space, pending.place_);
  }
  const std::optional<QuotaLimit> reached = pending.place_.reached();
  if (!reached.has_value()) return error;
  return options_.tenants->RefuseRecord(name_space, *reached);
}

absl::Status Operations::Write(const absl::StatusOr<Verdict>& answer,
                               PendingResponse<v1::ReserveResponse>& pending) {
  if (!answer.ok()) return WithLimit(answer.status(), pending);
  const auto* const reserved = std::get_if<Reserved>(&*answer);
  if (reserved != nullptr && reserved->attempt == 1 && !reserved->repeated) {
    pending.place_.CountRecord();
  }
  const auto* const replay = std::get_if<Replay>(&*answer);
  if (replay != nullptr) {
    const absl::Status held =
        HoldReply(replay->reply, InFlightWaiters::OpOf(pending.waiting_).key.name_space, pending);
    if (!held.ok()) return held;
  }
  const RetryAfterBounds bounds{options_.min_retry_after, options_.max_retry_after};
  const absl::Status written =
      WriteVerdict(*answer, pending.id_, bounds, {pending.max_reply_bytes_}, pending.response());
  if (written.ok()) observer_.VerdictGiven(*answer);
  if (written.ok()) DescribeVerdict(*answer, pending.span_.get());
  if (std::holds_alternative<Mismatch>(*answer)) {
    const RecordKey& key = InFlightWaiters::OpOf(pending.waiting_).key;
    observer_.MismatchSeen(key.name_space, key.operation, pending.id_);
  }
  return written;
}

void Operations::Complete(const v1::CompleteRequest& request,
                          PendingResponse<v1::CompleteResponse>& pending, Batcher::Group* group) {
  absl::StatusOr<CompleteOp> op = CompleteOpFrom(request);
  if (!op.ok()) return Refuse(pending, op.status());
  if (const absl::Status denied = Check(pending, op->key, Permission::kWrite); !denied.ok()) {
    return Refuse(pending, denied);
  }
  if (options_.tenants != nullptr) {
    pending.reply_ = {op->key.name_space, op->reply.bytes.size()};
  }
  pending.request_hold_.Release();
  pending.id_ = op->id;
  batcher_.Complete(
      *std::move(op), pending.deadline_,
      [this, &pending](const absl::StatusOr<Completion>& answer) {
        const AnswerBatchScope scope;
        // First, since the service may be destroyed once a call is finished.
        if (answer.ok()) waiters_.OnRecordChanged(pending.id_);
        if (answer.ok() && !answer->repeated && options_.tenants != nullptr) {
          options_.tenants->CountReply(pending.reply_.name_space, pending.reply_.bytes);
        }
        if (answer.ok()) WriteCompletion(*answer, pending.response());
        Finish(pending, answer.status());
      },
      group, pending.trace());
}

void Operations::Release(const v1::ReleaseRequest& request,
                         PendingResponse<v1::ReleaseResponse>& pending, Batcher::Group* group) {
  absl::StatusOr<ReleaseOp> op = ReleaseOpFrom(request);
  if (!op.ok()) return Refuse(pending, op.status());
  if (const absl::Status denied = Check(pending, op->key, Permission::kWrite); !denied.ok()) {
    return Refuse(pending, denied);
  }
  pending.request_hold_.Release();
  pending.id_ = op->id;
  batcher_.Release(
      *std::move(op), pending.deadline_,
      [this, &pending](const absl::Status& answer) {
        const AnswerBatchScope scope;
        if (answer.ok()) waiters_.OnRecordChanged(pending.id_);
        // The response of a release has no fields; this makes it.
        if (answer.ok()) pending.response();
        Finish(pending, answer);
      },
      group, pending.trace());
}

void Operations::Extend(const v1::ExtendRequest& request,
                        PendingResponse<v1::ExtendResponse>& pending, Batcher::Group* group) {
  absl::StatusOr<ExtendOp> op = ExtendOpFrom(request);
  if (!op.ok()) return Refuse(pending, op.status());
  if (const absl::Status denied = Check(pending, op->key, Permission::kWrite); !denied.ok()) {
    return Refuse(pending, denied);
  }
  pending.request_hold_.Release();
  batcher_.Extend(
      *std::move(op), pending.deadline_,
      [this, &pending](const absl::StatusOr<Extension>& answer) {
        const AnswerBatchScope scope;
        if (answer.ok()) WriteExtension(*answer, pending.response());
        Finish(pending, answer.status());
      },
      group, pending.trace());
}

void Operations::Get(const v1::GetRequest& request, PendingResponse<v1::GetResponse>& pending,
                     Batcher::Group* group) {
  absl::StatusOr<GetOp> op = GetOpFrom(request);
  if (!op.ok()) return Refuse(pending, op.status());
  if (const absl::Status denied = CheckRead(pending, *op, request.view()); !denied.ok()) {
    return Refuse(pending, denied);
  }
  if (options_.tenants != nullptr) {
    absl::StatusOr<Tenants::Place> place = AdmitRead(pending, *op, request.view());
    if (!place.ok()) return Refuse(pending, place.status());
    pending.place_ = *std::move(place);
  }
  if (!op->key.has_value() && pending.caller_ != nullptr) op->owner = OwnShareOf(*pending.caller_);
  pending.request_hold_.Release();
  batcher_.Get(
      *std::move(op), pending.deadline_,
      [this, &pending, view = request.view(),
       is_by_id = !request.has_record_key()](const absl::StatusOr<Record>& answer) {
        const AnswerBatchScope scope;
        const bool hides = !answer.ok() && is_by_id && !ReadsEverywhere(pending, view);
        Finish(pending,
               hides ? FailureWithoutNamespace(answer.status()) : Write(answer, view, pending));
      },
      group, pending.trace());
}

absl::StatusOr<Tenants::Place> Operations::AdmitRead(const PendingOperation& pending,
                                                     const GetOp& op, v1::RecordView view) {
  if (op.key.has_value()) return options_.tenants->AdmitRead(op.key->name_space);
  // By key it may read namespaces without limits too.
  if (ReadsEverywhere(pending, view)) return Tenants::Place();
  return options_.tenants->AdmitReadOfOne(pending.caller_->Named(PermissionFor(view)));
}

absl::Status Operations::Check(const PendingOperation& pending, const RecordKey& key,
                               Permission permission) {
  if (pending.caller_ == nullptr) return absl::OkStatus();
  return Observed(pending.caller_->Check(key, permission), *pending.caller_, key.name_space);
}

absl::Status Operations::Observed(absl::Status checked, Caller& caller,
                                  const std::string& name_space) {
  if (!checked.ok()) {
    observer_.CallerRefused(
        {checked, caller.Name().value_or(std::string()), name_space, caller.peer()});
  }
  return checked;
}

absl::Status Operations::CheckRead(const PendingOperation& pending, const GetOp& op,
                                   v1::RecordView view) {
  if (pending.caller_ == nullptr) return absl::OkStatus();
  const Permission permission = PermissionFor(view);
  if (op.key.has_value()) return Check(pending, *op.key, permission);
  return Observed(pending.caller_->CheckAnywhere(permission), *pending.caller_, "");
}

bool Operations::ReadsEverywhere(const PendingOperation& pending, v1::RecordView view) {
  return pending.caller_ == nullptr || pending.caller_->CheckEverywhere(PermissionFor(view)).ok();
}

absl::Status Operations::Write(const absl::StatusOr<Record>& answer, v1::RecordView view,
                               PendingResponse<v1::GetResponse>& pending) {
  if (!answer.ok()) return answer.status();
  // A record of another namespace looks like none.
  if (pending.caller_ != nullptr &&
      !pending.caller_->Check(answer->key, PermissionFor(view)).ok()) {
    return NoSuchRecord();
  }
  if (view == v1::RECORD_VIEW_FULL && answer->reply.has_value()) {
    const absl::Status held = HoldReply(*answer->reply, answer->key.name_space, pending);
    if (!held.ok()) return held;
  }
  return WriteRecord(*answer, view, *pending.response().mutable_record());
}

absl::Status Operations::HoldReply(const EncodedReply& reply, std::string_view name_space,
                                   PendingOperation& pending) {
  ShedReason refusal = ShedReason::kReplies;
  std::optional<MemoryBudget::Hold> hold =
      batcher_.budget().TryHoldReply(name_space, kCopiesOfAReply * reply.bytes.size(), &refusal);
  if (hold.has_value()) {
    pending.hold_ = *std::move(hold);
    return absl::OkStatus();
  }
  observer_.OperationShed(pending.kind_, refusal);
  return MakeError(
      Reason::kOverloaded,
      "The memory for replies is full. The record is unchanged; request it again later.",
      RetryAfter(retry_delays::kServiceOverloaded));
}

void Operations::Refuse(PendingOperation& pending, const absl::Status& status) {
  pending.request_hold_.Release();
  const AnswerBatchScope scope;
  Finish(pending, status);
}

void Operations::StartSpan(std::string_view traceparent, PendingOperation& pending) const {
  if (options_.tracer == nullptr) return;
  pending.span_ = BeginOperationSpan(traceparent);
}

void Operations::Finish(PendingOperation& pending, const absl::Status& status) {
  pending.place_.Release();
  const absl::Duration duration = absl::FromChrono(options_.clock->Monotonic() - pending.arrived_);
  if (pending.has_span()) {
    EndOperationSpan(pending.kind_, status, duration, *pending.span_);
    options_.tracer->Record(std::move(*pending.span_));
    pending.span_.reset();
  }
  observer_.RpcFinished(pending.kind_, status, duration);
  pending.Finish(status);
}

}  // namespace idempotency::internal
