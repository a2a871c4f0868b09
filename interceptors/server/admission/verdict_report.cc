#include "interceptors/server/admission/verdict_report.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "grpc_idempotency/server_guard/guard_hooks.h"
#include "interceptors/server/execution/hook_call.h"
#include "interceptors/server/wire/traceparent.h"

namespace idempotency::internal {
namespace {

VerdictEvent::Verdict VerdictOf(const v1::ReserveResponse& verdict) {
  switch (verdict.verdict_case()) {
    case v1::ReserveResponse::kReserved:
      return VerdictEvent::Verdict::kReserved;
    case v1::ReserveResponse::kReplay:
      return VerdictEvent::Verdict::kReplay;
    case v1::ReserveResponse::kInFlight:
      return VerdictEvent::Verdict::kInFlight;
    case v1::ReserveResponse::kMismatch:
      return VerdictEvent::Verdict::kMismatch;
    case v1::ReserveResponse::kOutcomeUnknown:
      return VerdictEvent::Verdict::kOutcomeUnknown;
    case v1::ReserveResponse::kExpired:
      return VerdictEvent::Verdict::kExpired;
    case v1::ReserveResponse::VERDICT_NOT_SET:
      break;
  }
  return VerdictEvent::Verdict::kNone;
}

// As in the daemon's metrics and spans: the name of the field; "" without a verdict.
std::string VerdictName(const v1::ReserveResponse& verdict) {
  const auto* const field =
      v1::ReserveResponse::descriptor()->FindFieldByNumber(verdict.verdict_case());
  return field == nullptr ? "" : std::string(field->name());
}

// The attempt of the verdict that is set; the others are empty.
std::uint32_t AttemptOf(const v1::ReserveResponse& verdict) {
  return std::max({verdict.reserved().attempt(), verdict.replay().attempt(),
                   verdict.in_flight().attempt(), verdict.mismatch().attempt(),
                   verdict.outcome_unknown().attempt()});
}

}  // namespace

VerdictReport::VerdictReport(const GuardedOperation& operation, const std::string& traceparent)
    : operation_(operation),
      span_(CallSpan::Start(operation, "idempotency admission", traceparent)) {
  if (operation.options.hooks.on_verdict) traceparent_ = traceparent;
  if (span_.has_value()) span_traceparent_ = span_->traceparent();
}

void VerdictReport::Once(const v1::ReserveResponse& verdict, const absl::Status& status) {
  if (std::exchange(reported_, true)) return;
  if (span_.has_value()) {
    span_->Set("idempotency.record_id", verdict.record_id());
    span_->Set("idempotency.attempt", static_cast<std::int64_t>(AttemptOf(verdict)));
    span_->Set("idempotency.verdict", VerdictName(verdict));
    span_->Link(TraceparentOf(verdict.replay().labels()));
    std::move(*span_).End(operation_, status);
    span_.reset();
  }
  if (!operation_.options.hooks.on_verdict) return;
  CallHook(*operation_.log, operation_.options.hooks.on_verdict,
           VerdictEvent{
               {operation_.name, verdict.record_id(), AttemptOf(verdict), std::move(traceparent_)},
               VerdictOf(verdict),
               status,
               TraceparentOf(verdict.replay().labels())});
}

}  // namespace idempotency::internal
