#include "interceptors/server/wire/guard_errors.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

// idempotency_service.proto has the causes of RESERVATION_LOST.
constexpr char kCause[] = "cause";
constexpr char kRecordExpired[] = "RECORD_EXPIRED";
constexpr char kSuperseded[] = "SUPERSEDED";

absl::Status LostForGood(const char* cause, std::string_view message) {
  ErrorDetails details;
  details.metadata.emplace(kCause, cause);
  return MakeErrorWithCode(Reason::kReservationLost, absl::StatusCode::kAborted, message,
                           std::move(details));
}

// "" without one.
std::string CauseOf(const absl::Status& error) {
  const ErrorDetails details = DetailsOf(error);
  const auto cause = details.metadata.find(kCause);
  return cause == details.metadata.end() ? "" : cause->second;
}

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
  return LostForGood(kRecordExpired,
                     "the record of this operation expired or was removed while it ran: its "
                     "outcome is not recorded, and a retry would run it again");
}

absl::Status SupersededAndGone() {
  return LostForGood(kSuperseded,
                     "another attempt may have taken this operation over before its record expired "
                     "or was removed: a retry would run it again");
}

absl::Status LossOf(const absl::Status& refusal) {
  return IsRecordGone(refusal) ? RecordGone() : ReservationLost();
}

bool WouldRunAgain(const absl::Status& loss) {
  if (IsRecordGone(loss)) return true;
  // A service's own status has another code: there a retry gets the winner's reply.
  return loss.code() == absl::StatusCode::kAborted && ReasonOf(loss) == Reason::kReservationLost &&
         CauseOf(loss) == kSuperseded;
}

}  // namespace idempotency::internal

namespace idempotency {

bool IsRecordGone(const absl::Status& error) {
  const std::optional<Reason> reason = ReasonOf(error);
  if (reason == Reason::kRecordNotFound) return true;
  return reason == Reason::kReservationLost && internal::CauseOf(error) == internal::kRecordExpired;
}

}  // namespace idempotency
