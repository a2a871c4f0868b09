#include "interceptors/server/method_policy.h"

#include "google/protobuf/descriptor.pb.h"

namespace idempotency {

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
  using Options = google::protobuf::MethodOptions;
  MethodPolicy policy;
  const auto level = method.options().idempotency_level();
  if (level == Options::NO_SIDE_EFFECTS || level == Options::IDEMPOTENT) policy.key = Key::kNone;
  return policy;
}

}  // namespace idempotency
