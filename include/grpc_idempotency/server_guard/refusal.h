#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_REFUSAL_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_REFUSAL_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace idempotency {

// What a server that calls ServerGuard::Begin sends to its client for an error of Begin, or of a
// BegunOperation. A guarded method does the same by itself. Thread-safe.

// The value of kPushbackMetadata with which gRPC's own retries, and those of CallWithRetries, end.
inline constexpr std::string_view kNoRetryPushback = "-1";

// The value of kPushbackMetadata, in the trailers, for an error: at most a second for IN_FLIGHT
// (RetryInfo in the status has the whole time); kNoRetryPushback where a retry changes nothing
// (OUTCOME_UNKNOWN) or would run the operation again (IsRecordGone(), or RESERVATION_LOST with the
// cause SUPERSEDED). nullopt: no trailer.
std::optional<std::string> PushbackFor(const absl::Status& error);

// True if the operation's record expired or was removed while the operation ran (RESERVATION_LOST
// with the cause RECORD_EXPIRED): no record has a reply for a retry, which would run the operation
// again. After the work is done send its own result, and after a failure of it kNoRetryPushback.
// False if another attempt may have taken over before the record went (the cause SUPERSEDED): its
// result counts, so send the error.
bool IsRecordGone(const absl::Status& error);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_REFUSAL_H_
