// The limits of a guard. Those that its callers meet are in grpc_idempotency/limits.h.
#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_LIMITS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_LIMITS_H_

#include <cstddef>

namespace idempotency::limits {

// Replies that a committed ledger transaction made durable, and that left before the store
// acknowledged them: at most kMaxRepliesAhead at a time, each up to kMaxReplyAheadBytes. Further
// and larger ones wait for the acknowledgement.
inline constexpr std::size_t kMaxRepliesAhead = 1024;
inline constexpr std::size_t kMaxReplyAheadBytes = 64 * 1024;

}  // namespace idempotency::limits

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_LIMITS_H_
