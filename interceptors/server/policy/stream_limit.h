#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_STREAM_LIMIT_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_STREAM_LIMIT_H_

#include <cstddef>
#include <string>

#include "grpc_idempotency/server_guard/method_policy.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

// The size that each message counts in addition to its bytes: half of what the two copies of a
// held-back message, for the record and for the client, take in addition to the bytes. So a
// captured stream takes at most about twice its limit.
inline constexpr std::size_t kStreamMessageOverheadBytes = 96;

// The part of MethodPolicy::stream_limit_bytes that a message of this size takes.
inline std::size_t StreamWeight(std::size_t message_bytes) {
  return message_bytes + kStreamMessageOverheadBytes;
}

// True if the stored stream would be larger than one that is captured while it is sent.
inline bool IsOverStreamLimit(const MethodPolicy& policy, const v1::Reply& reply) {
  if (policy.stream == MethodPolicy::Stream::kUnguarded) return false;
  std::size_t weight = 0;
  for (const std::string& message : reply.stream()) weight += StreamWeight(message.size());
  return weight > policy.stream_limit_bytes;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_STREAM_LIMIT_H_
