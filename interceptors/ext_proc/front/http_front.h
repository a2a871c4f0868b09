#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_HTTP_FRONT_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_HTTP_FRONT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interceptors/ext_proc/front/front.h"

namespace idempotency::internal {

// Plain HTTP with the header Idempotency-Key, as draft-ietf-httpapi-idempotency-key-header-07
// describes it. Records have a gRPC status, by which policies decide, in addition to the response:
// 2xx and 3xx are OK, and the others are the code that is nearest (docs/external_processor.md).
class HttpFront final : public Front {
 public:
  // `unrecorded`: names in lower case of headers that are not captured.
  explicit HttpFront(std::vector<std::string> unrecorded = {})
      : unrecorded_(std::move(unrecorded)) {}

  v1::Reply Capture(const HttpMessage& response, bool whole) const override;
  HttpMessage Restore(const v1::Reply& reply) const override;
  // A body of application/problem+json (RFC 9457), and Retry-After where a retry helps.
  HttpMessage Reject(const absl::Status& why, std::string_view record_id) const override;

 private:
  std::vector<std::string> unrecorded_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_HTTP_FRONT_H_
