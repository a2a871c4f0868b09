#include "grpc_idempotency/server_guard/method_policy.h"

#include "core/declared_policy.h"

namespace idempotency {

using internal::KeyRule;

std::set<grpc::StatusCode> MethodPolicy::DefaultRecorded() {
  return {grpc::StatusCode::OK,
          grpc::StatusCode::INVALID_ARGUMENT,
          grpc::StatusCode::NOT_FOUND,
          grpc::StatusCode::ALREADY_EXISTS,
          grpc::StatusCode::FAILED_PRECONDITION,
          grpc::StatusCode::OUT_OF_RANGE,
          grpc::StatusCode::PERMISSION_DENIED};
}

MethodPolicy MethodPolicy::DefaultFor(const google::protobuf::MethodDescriptor& method) {
  MethodPolicy policy;
  if (KeyRule(method, v1::Policy()) == v1::Policy::KEY_NONE) policy.key = Key::kNone;
  return policy;
}

}  // namespace idempotency
