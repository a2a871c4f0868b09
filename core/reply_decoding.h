#ifndef IDEMPOTENCY_CORE_REPLY_DECODING_H_
#define IDEMPOTENCY_CORE_REPLY_DECODING_H_

#include "absl/status/status.h"

#include "grpc_idempotency/reply.h"

namespace idempotency::internal {

// DecodeReply() into `reply`, which may be part of a message on an arena: a reply that is moved
// there is copied. Empty after a failure.
absl::Status DecodeReplyInto(const EncodedReply& encoded, v1::Reply& reply);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_REPLY_DECODING_H_
