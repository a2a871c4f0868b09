#include "interceptors/server/execution/reply_body.h"

#include <cstddef>
#include <limits>

namespace idempotency::internal {
namespace {

// protobuf's own.
constexpr std::size_t kMaxMessageBytes = std::numeric_limits<int>::max();

}  // namespace

void SetBody(const google::protobuf::MessageLite& message, v1::Reply& reply) {
  if (message.ByteSizeLong() > kMaxMessageBytes) {
    reply.set_content(v1::REPLY_CONTENT_STATUS_ONLY);
    return;
  }
  reply.set_body(message.SerializePartialAsString());
}

}  // namespace idempotency::internal
