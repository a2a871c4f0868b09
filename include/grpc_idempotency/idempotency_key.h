#ifndef GRPC_IDEMPOTENCY_IDEMPOTENCY_KEY_H_
#define GRPC_IDEMPOTENCY_IDEMPOTENCY_KEY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace idempotency {

// The metadata entry that carries the key. Source: the IETF draft
// draft-ietf-httpapi-idempotency-key-header, in lower case, as gRPC requires.
inline constexpr std::string_view kKeyMetadata = "idempotency-key";
// The record of the handler that makes the call, as a v1.RecordKey (docs/workflows.md).
inline constexpr std::string_view kParentMetadata = "idempotency-parent-bin";
// The trailing metadata of guarded replies and rejections.
inline constexpr std::string_view kRecordMetadata = "idempotency-record";
inline constexpr std::string_view kExpiresMetadata = "idempotency-expires";
inline constexpr std::string_view kReplayedMetadata = "idempotency-replayed";
inline constexpr std::string_view kTraceMetadata = "idempotency-traceparent";
// On a replay that is not the complete first reply: "redacted", "reference" or "status-only".
inline constexpr std::string_view kContentMetadata = "idempotency-content";
// gRFC A6: how long gRPC's own retries wait before the next attempt.
inline constexpr std::string_view kPushbackMetadata = "grpc-retry-pushback-ms";

// Parses the key from the values of `idempotency-key`: bare, or quoted as in the IETF draft (an
// RFC 8941 string, in which \" and \\ are unescaped). 1-255 visible ASCII characters
// (0x21-0x7E) after unquoting; a UUID is converted to lower case. Equal values count as one.
//   KEY_MISSING  no values
//   KEY_INVALID  empty, too long, not visible ASCII, bare with '"' or ',',
//                badly quoted, several different keys
// The message names the fault, and never contains the key. Thread-safe.
absl::StatusOr<std::string> ParseIdempotencyKey(absl::Span<const std::string_view> values);

// The value of the request field that may carry the key.
struct KeyInField {
  // The field's name, for error messages: "request_id".
  std::string_view name;
  // "": no key.
  std::string_view value;
};

// The same for a call whose request may also carry the key. The field holds the bare form. If
// both carry a key, the two must be equal.
//   KEY_MISSING  neither has one
//   KEY_INVALID  as above, or the field is quoted, or the two differ
absl::StatusOr<std::string> ParseIdempotencyKey(absl::Span<const std::string_view> values,
                                                const KeyInField& field);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_IDEMPOTENCY_KEY_H_
