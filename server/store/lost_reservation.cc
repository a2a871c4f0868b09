#include "server/store/lost_reservation.h"

#include <array>
#include <string>

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

struct Entry {
  std::string_view name;
  std::string_view message;
};

// In the order of the enumeration.
constexpr std::array<Entry, 5> kCauses = {{
    {"RECORD_EXPIRED", "the record has expired; its outcome can no longer be stored"},
    {"SUPERSEDED", "another attempt holds this record, or held it last; reserve again"},
    {"RELEASED", "this attempt was released; reserve again, with a new request token"},
    {"COMPLETED", "this attempt is already completed; reserve again for the stored reply"},
    {"OUTCOME_UNKNOWN",
     "the outcome of this attempt is unknown; complete it, or reserve again with `recover`"},
}};

}  // namespace

std::string_view LossCauseName(LossCause cause) {
  return kCauses[static_cast<std::size_t>(cause)].name;
}

absl::Status ReservationLostBecause(LossCause cause) {
  ErrorDetails details;
  details.metadata.emplace(kLossCauseEntry, LossCauseName(cause));
  return MakeError(Reason::kReservationLost, kCauses[static_cast<std::size_t>(cause)].message,
                   std::move(details));
}

std::optional<LossCause> LossCauseOf(const absl::Status& status) {
  if (ReasonOf(status) != Reason::kReservationLost) return std::nullopt;
  const ErrorDetails details = DetailsOf(status);
  const auto cause = details.metadata.find(std::string(kLossCauseEntry));
  if (cause == details.metadata.end()) return std::nullopt;
  for (std::size_t i = 0; i < kCauses.size(); ++i) {
    if (kCauses[i].name == cause->second) return static_cast<LossCause>(i);
  }
  return std::nullopt;
}

}  // namespace idempotency::internal
