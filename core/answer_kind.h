#ifndef IDEMPOTENCY_CORE_ANSWER_KIND_H_
#define IDEMPOTENCY_CORE_ANSWER_KIND_H_

#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace idempotency::internal {

// How a caller must handle the end of an operation of idempotencyd.
enum class AnswerKind {
  // It was executed.
  kDone,
  // It was not executed. A repetition is refused again, except where IsTemporary() is
  // true: do not repeat it otherwise, and never continue without a verdict because of it.
  kRefused,
  // It was not executed now: a repetition may succeed later.
  kBusy,
  // Unknown: no answer arrived, or the service had none. Repeat it with the same
  // tokens. The only kind that may fail open.
  kNone,
};

// The one place where this is decided, for statuses of a client::Connection, of the
// service and of gRPC:
//
//   STORE_UNAVAILABLE                 kNone; kRefused or kBusy if it stands for another
//                                     code (kStatusCodeDetail)
//   OUTCOME_NOT_RECORDED              kNone
//   OVERLOADED, QUOTA_EXCEEDED,
//   IN_FLIGHT, CREDENTIALS_INVALID    kBusy (credentials are renewed)
//   every other reason                kRefused, whatever its code
//   no reason: UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, UNKNOWN, INTERNAL: kNone;
//              RESOURCE_EXHAUSTED, ABORTED: kBusy; every other code: kRefused
AnswerKind KindOfAnswer(const absl::Status& status);

// True if the caller of idempotencyd is refused, and not its request: its credentials
// (CREDENTIALS_INVALID), its permissions (ACCESS_DENIED), or, without a reason of the
// service's, its configuration or by a proxy in between. An operator can correct each of them
// while the caller runs, and rules are replaced on open sessions.
bool RefusesCaller(const absl::Status& status);

// True if a repetition of the same request may succeed later: kBusy, kNone, and a refusal of
// the caller.
bool IsTemporary(const absl::Status& status);

// The code of a status that the service did not choose, also where a STORE_UNAVAILABLE replaces
// it (kStatusCodeDetail). nullopt for OK and for an answer of the service.
std::optional<absl::StatusCode> CodeWithoutReason(const absl::Status& status);

// In the metadata of a STORE_UNAVAILABLE that replaces a status without a reason, or a
// refusal of the caller: that status's code, as a number.
inline constexpr std::string_view kStatusCodeDetail = "status_code";

// In the metadata of the REQUEST_INVALID that ends a session: which of the frames of
// that stream is at fault, counted from 1.
inline constexpr std::string_view kFrameDetail = "frame";

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_ANSWER_KIND_H_
