#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_GRPC_FRONT_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_GRPC_FRONT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "interceptors/ext_proc/front/front.h"

namespace idempotency::internal {

// gRPC. The recorded reply is the one that a guard in the server records: its metadata without
// what HTTP, gRPC and Envoy add.
class GrpcFront final : public Front {
 public:
  // `unrecorded`: names in lower case of headers that are not captured.
  explicit GrpcFront(std::vector<std::string> unrecorded = {})
      : unrecorded_(std::move(unrecorded)) {}

  v1::Reply Capture(const HttpMessage& response, bool whole) const override;
  // Trailers-Only for an error without initial metadata.
  HttpMessage Restore(const v1::Reply& reply) const override;
  HttpMessage Reject(const absl::Status& why, std::string_view record_id) const override;

 private:
  std::vector<std::string> unrecorded_;
};

// The message of a unary call. INVALID_ARGUMENT / REQUEST_INVALID if there are several, or none, or
// if it is compressed: compressed bytes differ although the requests are the same.
absl::StatusOr<std::string_view> UnaryMessage(std::string_view body);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_FRONT_GRPC_FRONT_H_
