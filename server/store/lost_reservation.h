#ifndef IDEMPOTENCY_SERVER_STORE_LOST_RESERVATION_H_
#define IDEMPOTENCY_SERVER_STORE_LOST_RESERVATION_H_

#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace idempotency::internal {

// Why a token no longer holds its record.
enum class LossCause {
  // RECORD_EXPIRED: the record has expired, or does not exist.
  kRecordExpired,
  // SUPERSEDED: another token holds it, or held it last. The next attempt was
  // granted, or this token was never of this record.
  kSuperseded,
  // RELEASED: this attempt was released.
  kReleased,
  // COMPLETED: this attempt was completed, with another reply if this was a
  // completion.
  kCompleted,
  // OUTCOME_UNKNOWN: the outcome of this attempt is unknown: it was released
  // with that outcome, or its lease expired. A completion is still accepted
  // then.
  kOutcomeUnknown,
};

// google.rpc.ErrorInfo.metadata of RESERVATION_LOST: the name above. Stable.
inline constexpr std::string_view kLossCauseEntry = "cause";

std::string_view LossCauseName(LossCause cause);

// FAILED_PRECONDITION / RESERVATION_LOST with its cause.
absl::Status ReservationLostBecause(LossCause cause);

// nullopt for another failure, or if the service did not set it.
std::optional<LossCause> LossCauseOf(const absl::Status& status);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_LOST_RESERVATION_H_
