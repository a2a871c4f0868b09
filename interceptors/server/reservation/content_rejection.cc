#include "interceptors/server/reservation/content_rejection.h"

#include <cstddef>
#include <optional>

#include "core/answer_kind.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/reply.h"

namespace idempotency::internal {
namespace {

// How often in a row a reply is refused without a reason of the service's, while small requests
// are answered, before its content is dropped: about 10 s.
constexpr int kRefusalsBeforeDrop = 30;
// RESOURCE_EXHAUSTED refuses a message for its size, or every message of a caller over its rate.
// No usual limit of a message is lower: a smaller reply is refused for its rate.
constexpr std::size_t kLargeReplyBytes = 16 * 1024;

}  // namespace

bool ContentRejection::IsCertain(const absl::Status& answer) const {
  return !dropped_ && ReasonOf(answer) == Reason::kRequestInvalid;
}

bool ContentRejection::IsPossible(const absl::Status& answer, const v1::Reply& reply) const {
  if (dropped_) return false;
  const std::optional<absl::StatusCode> code = CodeWithoutReason(answer);
  return code == absl::StatusCode::kInvalidArgument ||
         (code == absl::StatusCode::kResourceExhausted && ReplyBytes(reply) >= kLargeReplyBytes);
}

bool ContentRejection::OnProbed(bool small_requests_pass) {
  refusals_ = small_requests_pass ? refusals_ + 1 : 0;
  return refusals_ >= kRefusalsBeforeDrop;
}

}  // namespace idempotency::internal
