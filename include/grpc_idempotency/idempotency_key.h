#ifndef GRPC_IDEMPOTENCY_IDEMPOTENCY_KEY_H_
#define GRPC_IDEMPOTENCY_IDEMPOTENCY_KEY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace idempotency {

// The metadata entry that carries the key. Source: the IETF draft
// draft-ietf-httpapi-idempotency-key-header, lower-cased as gRPC asks.
inline constexpr std::string_view kKeyMetadata = "idempotency-key";
// The record in whose handler a call was made: a v1.RecordKey, see
// client/parent_operation.h.
inline constexpr std::string_view kParentMetadata = "idempotency-parent-bin";
// What guarded replies and rejections tell, in their trailing metadata.
inline constexpr std::string_view kRecordMetadata = "idempotency-record";
inline constexpr std::string_view kExpiresMetadata = "idempotency-expires";
inline constexpr std::string_view kReplayedMetadata = "idempotency-replayed";
inline constexpr std::string_view kTraceMetadata = "idempotency-traceparent";
// On a replay that is not the whole first reply: "redacted", "reference" or
// "status-only".
inline constexpr std::string_view kContentMetadata = "idempotency-content";
// gRFC A6: how long gRPC's own retries wait before the next attempt.
inline constexpr std::string_view kPushbackMetadata = "grpc-retry-pushback-ms";

// Reads the key from the values of `idempotency-key`: bare, or quoted as in
// the IETF draft (an RFC 8941 string, whose \" and \\ are unescaped).
// 1-255 visible ASCII characters (0x21-0x7E) after unquoting; a UUID is
// lower-cased. Equal values count as one.
//   KEY_MISSING  no values
//   KEY_INVALID  empty, too long, not visible ASCII, bare with '"' or ',',
//                badly quoted, several different keys
// The error says what was wrong, never the key itself.
absl::StatusOr<std::string> ParseIdempotencyKey(absl::Span<const std::string_view> values);

// What a request holds in the field that may carry its key.
struct KeyInField {
  // For errors: "request_id".
  std::string_view name;
  // "" is no key.
  std::string_view value;
};

// The same for a call whose key may also stand in its request. The field holds
// the bare form; where both have a key, they must be the same one.
//   KEY_MISSING  neither has one
//   KEY_INVALID  as above, the field is quoted, the two differ
absl::StatusOr<std::string> ParseIdempotencyKey(absl::Span<const std::string_view> values,
                                                const KeyInField& field);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_IDEMPOTENCY_KEY_H_
