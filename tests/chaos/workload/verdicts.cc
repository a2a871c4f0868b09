#include "tests/chaos/workload/verdicts.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal::testing {

LoggedAnswer LoggedFailure(const absl::Status& status) {
  const auto reason = ReasonOf(status);
  if (!reason.has_value()) return {};
  switch (*reason) {
    case Reason::kInFlight:
      return {"fail", "in_flight"};
    case Reason::kKeyReused:
      return {"fail", "mismatch"};
    case Reason::kOutcomeUnknown:
      return {"fail", "outcome_unknown"};
    case Reason::kKeyExpired:
      return {"fail", "expired"};
    case Reason::kKeyMissing:
      return {"fail", "key_missing"};
    case Reason::kKeyInvalid:
      return {"fail", "key_invalid"};
    case Reason::kRequestInvalid:
      return {"fail", "invalid"};
    case Reason::kQuotaExceeded:
      return {"fail", "quota"};
    case Reason::kOverloaded:
      return {"fail", "overloaded"};
    case Reason::kReservationLost:
      return {"fail", "lost"};
    case Reason::kStoreUnavailable:
      return {"fail", "unavailable"};
    default:
      return {};
  }
}

}  // namespace idempotency::internal::testing
