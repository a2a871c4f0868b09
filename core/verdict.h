#ifndef IDEMPOTENCY_CORE_VERDICT_H_
#define IDEMPOTENCY_CORE_VERDICT_H_

#include <cstdint>
#include <map>
#include <string>
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
  // Released so, or lapsed where that asks for recovery.
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
  // Those of the record: what its first reservation gave, not this caller.
  std::map<std::string, std::string> labels;
  PreviousAttempt previous_attempt = PreviousAttempt::kNone;
  // For counting only: an attempt whose lease had run out was taken over; an
  // expired record of the same key was started afresh; the same grant was
  // given again to a repeated request token.
  bool took_over = false;
  bool after_expiry = false;
  bool repeated = false;
};

// The operation completed; this was its reply.
struct Replay {
  EncodedReply reply;
  absl::Time completed_at;
  absl::Time expires_at;
  std::uint32_t attempt = 0;
  // As with Reserved.
  std::map<std::string, std::string> labels;
};

// Another attempt holds a live lease, or was released with a pause.
struct InFlight {
  // What is left of that lease, or of that pause. Of a lease, callers are told
  // less (the service decides).
  absl::Duration lease_remaining;
  std::uint32_t attempt = 0;
  // Nothing runs: the record is not granted before the pause is over.
  bool paused = false;
};

// The key belongs to a different request.
struct Mismatch {
  std::uint32_t attempt = 0;
};

// An attempt ended without a trace and the record wants recovery.
struct OutcomeUnknown {
  // How that attempt ended.
  enum class Cause { kReleased, kLeaseExpired };
  std::uint32_t attempt = 0;
  Cause cause = Cause::kLeaseExpired;
  // Of the release; empty for a lease that ran out.
  std::string reason;
  // When it was released, or its lease ended.
  absl::Time since;
};

// The key is too old to tell whether it ran.
struct Expired {};

using Verdict = std::variant<Reserved, Replay, InFlight, Mismatch, OutcomeUnknown, Expired>;

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_VERDICT_H_
