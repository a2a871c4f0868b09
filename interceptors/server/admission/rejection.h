#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_REJECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_REJECTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

#include "grpc_idempotency/server_guard/refusal.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// The reason why a call with this verdict does not run; OK for `reserved`, and for a `replay`
// from which a reply can be made: all except an OK with only its status kept.
absl::Status RejectionFor(const v1::ReserveResponse& verdict);

// True unless only the status of an OK was kept, or its content has a kind that only a newer
// service knows.
bool CanBeReplayed(const v1::Reply& reply);

// REPLY_NOT_KEPT, with the operation's final code in its details.
absl::Status ReplyNotKept(int original_code);

// OUTCOME_UNKNOWN: the message has the event, its time and the remedy; the metadata of its
// ErrorInfo has cause, reason, since and attempt.
absl::Status OutcomeUnknownRejection(const v1::OutcomeUnknown& unknown);

// The same for an attempt that was to find out the outcome, and has just been released as
// unknown for `reason`.
absl::Status OutcomeUndecided(std::uint32_t attempt, std::string_view reason);

// Converts a rejection to a reply to send, Trailers-Only: details and retry delay of the
// catalogue, and the record's id if it is known. The pushback makes gRPC's own retries try
// again within a second while an attempt runs or pauses (RetryInfo has the whole time), and
// prevents retries for an unknown outcome.
v1::Reply RejectionReply(const absl::Status& rejection, std::string_view record_id);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_REJECTION_H_
