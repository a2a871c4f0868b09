#include "interceptors/server/wire/guard_errors.h"

#include <optional>
#include <utility>

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

// idempotency_service.proto has the causes of RESERVATION_LOST.
constexpr char kCause[] = "cause";
constexpr char kRecordExpired[] = "RECORD_EXPIRED";

}  // namespace

absl::Status KeyReused() {
  return MakeError(Reason::kKeyReused,
                   "this idempotency key was used with a different request: use a new key for "
                   "a new operation, and the same request on every retry");
}

absl::Status ReservationLost() {
  return MakeErrorWithCode(Reason::kReservationLost, absl::StatusCode::kAborted,
                           "another attempt took this operation over: call again with the same "
                           "idempotency key for its reply",
                           RetryAfter(retry_delays::kAnotherAttempt));
}

absl::Status RecordGone() {
  ErrorDetails details;
  details.metadata.emplace(kCause, kRecordExpired);
  return MakeErrorWithCode(Reason::kReservationLost, absl::StatusCode::kAborted,
                           "the record of this operation expired or was removed while it ran: its "
                           "outcome is not recorded, and a retry would run it again",
                           std::move(details));
}

absl::Status LossOf(const absl::Status& refusal) {
  return IsRecordGone(refusal) ? RecordGone() : ReservationLost();
}

}  // namespace idempotency::internal

namespace idempotency {

bool IsRecordGone(const absl::Status& error) {
  const std::optional<Reason> reason = ReasonOf(error);
  if (reason == Reason::kRecordNotFound) return true;
  if (reason != Reason::kReservationLost) return false;
  const ErrorDetails details = DetailsOf(error);
  const auto cause = details.metadata.find(internal::kCause);
  return cause != details.metadata.end() && cause->second == internal::kRecordExpired;
}

}  // namespace idempotency
