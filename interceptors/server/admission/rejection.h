#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_REJECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_REJECTION_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// Why a call with this verdict does not run; OK for `reserved` and for a
// `replay` that there is something to make from: everything but an OK of which
// only the status was kept.
absl::Status RejectionFor(const v1::ReserveResponse& verdict);

// True unless only the status of an OK was kept, or its content is of a newer
// service's kind.
bool CanBeReplayed(const v1::Reply& reply);

// REPLY_NOT_KEPT, with the code that the operation ended with in its details.
absl::Status ReplyNotKept(int original_code);

// OUTCOME_UNKNOWN: what happened, when, and what to do, in the message; cause,
// reason, since and attempt as metadata of its ErrorInfo.
absl::Status OutcomeUnknownRejection(const v1::OutcomeUnknown& unknown);

// The same of an attempt that was to find out, and has just been released as
// unknown for `reason`.
absl::Status OutcomeUndecided(std::uint32_t attempt, std::string_view reason);

// A rejection as a reply to send, Trailers-Only: details and wait as the
// catalogue says, the record's id if one is known. gRPC's own retries are told
// to look again within a second while an attempt runs or pauses (RetryInfo has
// all of the time), and not to retry an unknown outcome.
v1::Reply RejectionReply(const absl::Status& rejection, std::string_view record_id);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_REJECTION_H_
