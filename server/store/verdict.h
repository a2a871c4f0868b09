#ifndef IDEMPOTENCY_SERVER_STORE_VERDICT_H_
#define IDEMPOTENCY_SERVER_STORE_VERDICT_H_

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "absl/time/time.h"

#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// The answers of Reserve. Data, not errors.

// How the attempt before a grant ended.
enum class PreviousAttempt {
  // There was none.
  kNone,
  kReleased,
  // It may have had an effect, and may still be running.
  kLeaseExpired,
  // Released with that outcome, or expired where that requires recovery.
  kOutcomeUnknown,
};

// The caller holds the reservation and runs the operation.
struct Reserved {
  Uuid token;
  std::uint32_t attempt = 0;
  // From the moment of the answer, by the store's clock. Never negative.
  absl::Duration lease_remaining;
  // An earlier attempt's outcome is unknown.
  bool recovering = false;
  std::string checkpoint;
  absl::Time created_at;
  absl::Time expires_at;
  // The record's labels, from its first reservation, not from this caller.
  std::map<std::string, std::string> labels;
  PreviousAttempt previous_attempt = PreviousAttempt::kNone;
  // For counting only: an attempt with an expired lease was taken over; an
  // expired record of the same key was started afresh; a repeated request token
  // got the same grant again.
  bool took_over = false;
  bool after_expiry = false;
  bool repeated = false;
  // Not durable yet: ReserveOp::relaxed, and the first grant of a new record.
  bool relaxed = false;
};

// The operation completed; this was its reply.
struct Replay {
  EncodedReply reply;
  absl::Time completed_at;
  absl::Time expires_at;
  std::uint32_t attempt = 0;
  // As with Reserved.
  std::map<std::string, std::string> labels;
  // The token of the attempt that completed. Never put into an answer to a caller.
  Uuid token = Uuid();
};

// Another attempt holds a live lease, or was released with a pause.
struct InFlight {
  // The remaining time of that lease, or of that pause. For a lease, callers
  // get a shorter time (the service decides).
  absl::Duration lease_remaining;
  std::uint32_t attempt = 0;
  // Nothing runs: the record is not granted before the pause is over.
  bool paused = false;
};

// The key belongs to a different request.
struct Mismatch {
  std::uint32_t attempt = 0;
};

// An attempt ended without a result and the record requires recovery.
struct OutcomeUnknown {
  // How that attempt ended.
  enum class Cause { kReleased, kLeaseExpired };
  std::uint32_t attempt = 0;
  Cause cause = Cause::kLeaseExpired;
  // The reason of the release; empty for an expired lease.
  std::string reason;
  // When it was released, or its lease ended.
  absl::Time since;
  // For counting only: this reservation made the record UNKNOWN.
  bool marked = false;
};

// The key is too old to determine whether it ran.
struct Expired {};

using Verdict = std::variant<Reserved, Replay, InFlight, Mismatch, OutcomeUnknown, Expired>;

// As on the wire, in the order of the alternatives.
inline constexpr std::string_view kVerdictNames[] = {"reserved", "replay",          "in_flight",
                                                     "mismatch", "outcome_unknown", "expired"};
static_assert(std::size(kVerdictNames) == std::variant_size_v<Verdict>);

inline std::string_view VerdictName(const Verdict& verdict) {
  return kVerdictNames[verdict.index()];
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_VERDICT_H_
