#include "interceptors/server/call/guarded_method.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "interceptors/server/admission/rejection.h"
#include "interceptors/server/call/guarded_call_table.h"
#include "interceptors/server/request/application_call.h"
#include "interceptors/server/request/parent_metadata.h"
#include "interceptors/server/request/reserve_request.h"
#include "interceptors/server/request/trace_metadata.h"
#include "interceptors/server/wire/guard_errors.h"
#include "interceptors/server/wire/traceparent.h"

namespace idempotency::internal {
namespace {

// The call's handler does not run after all.
std::shared_ptr<LiveExecution> GiveBack(GuardedCall& call, std::string reason) {
  std::shared_ptr<LiveExecution> execution = call.Withdraw();
  execution->reservation()->GiveBack(std::move(reason), [] {});
  return execution;
}

void Reject(PendingCall& pending, const absl::Status& why, std::string_view record_id = {}) {
  pending.Answer(SentReply(RejectionReply(why, record_id)));
}

}  // namespace

GuardedMethod::GuardedMethod(RequestIdentity identity, GuardedOperation operation)
    : identity_(std::move(identity)),
      operation_(std::make_shared<const GuardedOperation>(std::move(operation))) {}

void GuardedMethod::Admit(std::shared_ptr<PendingCall> pending) {
  Call call{pending, GuardedCallTable::Instance().Find(&pending->context()),
            CallersDeadline(pending->context()),
            operation_->policy.fail_open ? std::make_shared<UnguardedRun>() : nullptr};
  if (call.guarded == nullptr || !call.guarded->IsOf(operation_->reservations)) {
    operation_->log->Error(
        LogEvent::kInterceptorMissing, operation_->name,
        ": the guard's interceptor is missing, so a reply could not be recorded; was "
        "SetInterceptorCreators called after ServerGuard::Install?");
    Reject(*pending,
           absl::InternalError("the idempotency guard is not installed; nothing was run"));
    return;
  }
  if (pending->sync()) call.guarded->MarkSync();
  absl::StatusOr<std::string> key = identity_.KeyOf(pending->context(), pending->request());
  if (ReasonOf(key.status()) == Reason::kKeyMissing &&
      operation_->policy.key == MethodPolicy::Key::kOptional) {
    RunWithoutKey(call);
    return;
  }
  if (!key.ok()) {
    Reject(*pending, key.status());
    return;
  }
  absl::StatusOr<std::shared_ptr<v1::ReserveRequest>> reserve_request =
      ReserveRequestFor(*pending, *std::move(key));
  if (!reserve_request.ok()) {
    Reject(*pending, reserve_request.status());
    return;
  }
  const Scheduler::Time deadline = VerdictDeadline(*operation_, call.callers_deadline);
  std::shared_ptr<const UnguardedRun> unguarded = call.unguarded;
  Admission::Admit(
      operation_, *std::move(reserve_request), deadline,
      [this, call = std::move(call)](Admission::Decision decision) {
        Act(call, std::move(decision));
      },
      &pending->request(), std::move(unguarded));
}

absl::StatusOr<std::shared_ptr<v1::ReserveRequest>> GuardedMethod::ReserveRequestFor(
    PendingCall& pending, std::string key) const {
  absl::StatusOr<std::string> scope = ScopeOf(pending.context());
  if (!scope.ok()) return scope.status();
  RecordKey record_key{operation_->options.name_space, *std::move(scope), operation_->name,
                       std::move(key)};
  const absl::Status valid = ValidateRecordKey(record_key);
  if (!valid.ok()) return valid;
  const absl::Status authorised = identity_.Authorise(pending.context(), pending.request());
  if (!authorised.ok()) return authorised;
  absl::StatusOr<std::vector<Fingerprint>> fingerprints =
      identity_.FingerprintsOf(pending.context(), pending.request());
  if (!fingerprints.ok()) return fingerprints.status();

  std::shared_ptr<v1::ReserveRequest> reserve_request =
      MakeReserveRequest(std::move(record_key), *std::move(fingerprints));
  // So that the record has the trace of the attempt that ran first.
  if (auto trace = TraceparentIn(pending.context(), *operation_->log); trace.has_value()) {
    (*reserve_request->mutable_labels())[std::string(kTraceparentName)] = *std::move(trace);
  }
  if (auto parent = ParentOf(pending.context(), *operation_->log); parent.has_value()) {
    *reserve_request->mutable_parent() = *std::move(parent);
  }
  return reserve_request;
}

absl::StatusOr<std::string> GuardedMethod::ScopeOf(const grpc::ServerContextBase& context) const {
  return CallApplication(*operation_->log, operation_->name, "the scope function",
                         [&] { return operation_->options.scope(context); });
}

Scheduler::Time GuardedMethod::CallersDeadline(const grpc::ServerContextBase& context) const {
  // The remaining time before this clock: in the other order the deadline would be early, and
  // gRPC would not have ended the call yet.
  const absl::Duration remaining = TimeUntil(context.raw_deadline());
  return After(operation_->reservations.Now(), remaining);
}

bool GuardedMethod::EndedByCaller(const Call& call) const {
  return operation_->reservations.Now() >= call.callers_deadline;
}

void GuardedMethod::Act(const Call& call, Admission::Decision decision) {
  if (auto* granted = std::get_if<Admission::Granted>(&decision)) {
    Run(call, std::move(granted->execution));
  } else if (auto* replayed = std::get_if<Admission::Replayed>(&decision)) {
    Replay(call, std::move(replayed->reply));
  } else {
    const auto& refused = std::get<Admission::Refused>(decision);
    if (refused.no_verdict && operation_->policy.fail_open && !EndedByCaller(call)) {
      RunUnguarded(call);
      return;
    }
    if (call.unguarded != nullptr) call.unguarded->RuleOut();
    Reject(*call.pending, refused.why, refused.record_id);
  }
}

void GuardedMethod::Run(const Call& call, std::shared_ptr<LiveExecution> execution) {
  std::shared_ptr<GuardedStream> stream;
  if (std::shared_ptr<StreamWriter> writer = call.pending->MakeStreamWriter(); writer != nullptr) {
    stream = std::make_shared<GuardedStream>(execution->operation().policy, std::move(writer));
  }
  if (execution->operation().policy.cancel_when_lost) {
    call.guarded->canceller().Begin([&context = call.pending->context()] { context.TryCancel(); });
    execution->reservation()->OnLost(
        [weak = std::weak_ptr<GuardedCall>(call.guarded),
         &pool = execution->operation().pools.cancellations](const Reservation& /*lost*/) {
          // The application's interceptors run inside, and may block. This thread sends the
          // heartbeats of all calls.
          RunThereOrHere(
              pool,
              [weak] {
                if (const auto guarded = weak.lock()) guarded->canceller().Cancel();
              },
              /*if_stopped=*/[] {});
        });
  }
  call.guarded->Begin(std::move(execution), std::move(stream));
  HandlerStart start;
  start.last_look = [guarded = call.guarded]() -> std::optional<v1::Reply> {
    if (!guarded->execution()->lost()) return std::nullopt;
    const auto withdrawn = GiveBack(*guarded, "the lease expired before the handler ran");
    return RejectionReply(ReservationLost(), withdrawn->record_id());
  };
  start.needs_client = true;
  start.not_run = [guarded = call.guarded](std::string_view reason) {
    GiveBack(*guarded, std::string(reason));
  };
  call.pending->Run(std::move(start));
}

void GuardedMethod::RunWithoutKey(const Call& call) {
  const absl::Status authorised =
      identity_.Authorise(call.pending->context(), call.pending->request());
  if (!authorised.ok()) {
    Reject(*call.pending, authorised);
    return;
  }
  HandlerStart start;
  start.last_look = [this, guarded = call.guarded]() -> std::optional<v1::Reply> {
    guarded->MarkUnguarded(operation_->policy);
    return std::nullopt;
  };
  call.pending->Run(std::move(start));
}

void GuardedMethod::RunUnguarded(const Call& call) {
  HandlerStart start;
  start.needs_client = true;
  // Not before: the handler may still not run.
  start.last_look = [this, guarded = call.guarded]() -> std::optional<v1::Reply> {
    guarded->MarkUnguarded(operation_->policy);
    calls_failed_open_.fetch_add(1, std::memory_order_relaxed);
    operation_->log->Warn(LogEvent::kUnguardedCall, operation_->name,
                          ": no verdict was received: a call runs unguarded, as its policy allows");
    return std::nullopt;
  };
  start.not_run = [unguarded = call.unguarded](std::string_view /*reason*/) {
    unguarded->RuleOut();
  };
  call.pending->Run(std::move(start));
}

void GuardedMethod::Replay(const Call& call, SentReply reply) {
  // Of a streaming method, perhaps of another guard, with the same operation. Without a body it
  // would be sent as an OK with an empty message.
  const bool is_unary = operation_->policy.stream == MethodPolicy::Stream::kUnguarded;
  if (is_unary && reply.stored().code() == 0 && !reply.stored().has_body() &&
      !reply.stored().stream().empty()) {
    Reject(*call.pending, ReplyNotKept(reply.stored().code()));
    return;
  }
  if (!reply.stored().has_body() && reply.stored().stream().empty()) call.guarded->OmitMessage();
  call.pending->Answer(std::move(reply));
}

}  // namespace idempotency::internal
