#include "interceptors/server/policy/disposition_rule.h"

#include <algorithm>
#include <utility>

#include "core/error_domain.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/reply.h"
#include "interceptors/server/policy/unknown_outcome.h"

namespace idempotency::internal {

bool IsOutcome(grpc::StatusCode code, const std::string& details) {
  return code == grpc::StatusCode::OK || details.empty() || !HasErrorDomain(details);
}

std::string DetailsAmong(std::vector<std::string> candidates) {
  if (candidates.empty()) return "";
  const auto of_catalogue =
      std::find_if(candidates.begin(), candidates.end(),
                   [](const std::string& details) { return HasErrorDomain(details); });
  return std::move(of_catalogue == candidates.end() ? candidates.front() : *of_catalogue);
}

v1::Reply CapturedWithoutContent(const v1::Reply& reply) {
  v1::Reply rest = WithoutContent(reply);
  if (!IsOutcome(StatusCodeFrom(reply.code()), reply.details())) rest.set_details(reply.details());
  return rest;
}

bool CanBeRecorded(grpc::StatusCode code) { return !ProvesNothing(code); }

bool CanBeReleased(grpc::StatusCode code) {
  // gRPC generates it too, so it may be passed on from a call that had an effect.
  return CanBeRecorded(code) && code != grpc::StatusCode::OK && code != grpc::StatusCode::INTERNAL;
}

bool IsRecorded(const MethodPolicy& policy, grpc::StatusCode code) {
  if (code == grpc::StatusCode::OK) return true;
  return CanBeRecorded(code) && policy.recorded.count(code) > 0;
}

bool IsReleased(const MethodPolicy& policy, grpc::StatusCode code) {
  return CanBeReleased(code) && !IsRecorded(policy, code) && policy.released.count(code) > 0;
}

bool ReportsNoEffect(const MethodPolicy& policy, const grpc::Status& status) {
  return IsReleased(policy, status.error_code()) &&
         IsOutcome(status.error_code(), status.error_details()) && !IsOverReceiveLimit(status);
}

Disposition DispositionFor(const MethodPolicy& policy, UnknownOutcome on_unknown,
                           grpc::StatusCode code, bool no_effect) {
  if (IsRecorded(policy, code)) return Disposition::kComplete;
  if (no_effect || IsReleased(policy, code)) return Disposition::kRelease;
  if (on_unknown == UnknownOutcome::kRecover) return Disposition::kReleaseUnknown;
  // The handler stopped waiting for work that may still be in progress.
  const bool abandoned =
      code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::DEADLINE_EXCEEDED;
  // Never at once: the caller's retries would run it again and again.
  return abandoned ? Disposition::kLetLapse : Disposition::kReleaseLater;
}

}  // namespace idempotency::internal
