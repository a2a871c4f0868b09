#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_METHOD_PATH_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_METHOD_PATH_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace idempotency::internal {

// As on the wire: "/payments.v1.Payments/Charge".
inline std::string MethodPath(const google::protobuf::MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_METHOD_PATH_H_
