#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_FRONT_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_FRONT_H_

#include <string_view>

#include "absl/status/status.h"

#include "idempotency/v1/record.pb.h"
#include "interceptors/ext_proc/exchange/http_message.h"

namespace idempotency::internal {

// Translates between responses of HTTP and replies of records, for one protocol on top of HTTP.
// Immutable and thread-safe.
class Front {
 public:
  virtual ~Front() = default;

  // The reply to record for a response of the upstream. If it is not `whole`, a part of its body
  // has left already, and only its status counts.
  virtual v1::Reply Capture(const HttpMessage& response, bool whole) const = 0;
  // The response for a stored reply, which may be a rejection (RejectionReply).
  virtual HttpMessage Restore(const v1::Reply& reply) const = 0;
  // The response for a refusal. `record_id` may be empty.
  virtual HttpMessage Reject(const absl::Status& why, std::string_view record_id) const = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_FRONT_H_
