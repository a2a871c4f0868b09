#include "interceptors/server/policy/disposition.h"

namespace idempotency {

bool CanBeRecorded(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::UNKNOWN:
    // The callback API answers it when a handler throws.
    case grpc::StatusCode::UNIMPLEMENTED:
      return false;
    default:
      return true;
  }
}

bool CanBeReleased(grpc::StatusCode code) {
  // gRPC's own too, and so passed on from a call that may have had an effect.
  return CanBeRecorded(code) && code != grpc::StatusCode::OK && code != grpc::StatusCode::INTERNAL;
}

Disposition DispositionFor(const MethodPolicy& policy, grpc::StatusCode code,
                           bool nothing_happened) {
  if (code == grpc::StatusCode::OK) return Disposition::kComplete;
  if (CanBeRecorded(code) && policy.recorded.count(code) > 0) return Disposition::kComplete;
  if (nothing_happened) return Disposition::kRelease;
  if (CanBeReleased(code) && policy.released.count(code) > 0) return Disposition::kRelease;
  if (policy.on_lease_expiry == MethodPolicy::OnLeaseExpiry::kRequireRecovery) {
    return Disposition::kReleaseUnknown;
  }
  // The handler stopped waiting for work that may still be in the air.
  const bool abandoned =
      code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::DEADLINE_EXCEEDED;
  return abandoned ? Disposition::kLetLapse : Disposition::kRelease;
}

}  // namespace idempotency
