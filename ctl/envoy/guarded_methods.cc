#include "ctl/envoy/guarded_methods.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.pb.h"

#include "idempotency/v1/options.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using google::protobuf::MethodDescriptorProto;
using google::protobuf::MethodOptions;
using google::protobuf::ServiceDescriptorProto;

// The guard's default as well (docs/policies.md).
bool IsGuarded(const MethodOptions& options) {
  const v1::Policy& policy = options.GetExtension(v1::policy);
  switch (policy.key()) {
    case v1::Policy::KEY_REQUIRED:
    case v1::Policy::KEY_OPTIONAL:
      return true;
    case v1::Policy::KEY_NONE:
      return false;
    default:
      return options.idempotency_level() == MethodOptions::IDEMPOTENCY_UNKNOWN;
  }
}

bool DemandsGuard(const MethodOptions& options) {
  const v1::Policy& policy = options.GetExtension(v1::policy);
  return policy.key() == v1::Policy::KEY_REQUIRED || policy.key() == v1::Policy::KEY_OPTIONAL ||
         policy.stream() != v1::Policy::STREAM_UNSPECIFIED;
}

void Add(const std::string& name, const MethodDescriptorProto& method,
         MethodsOfDescriptors& methods) {
  if (!method.client_streaming() && !method.server_streaming()) {
    if (IsGuarded(method.options())) methods.guarded.push_back(name);
    return;
  }
  methods.streaming.push_back(name);
  if (DemandsGuard(method.options())) methods.streaming_with_policy.push_back(name);
}

void Sort(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace

absl::StatusOr<MethodsOfDescriptors> ReadDescriptors(absl::string_view bytes) {
  FileDescriptorSet files;
  if (!files.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(
        "it is not a FileDescriptorSet; make it with `protoc --include_imports "
        "--descriptor_set_out=FILE`");
  }
  MethodsOfDescriptors methods;
  bool has_service = false;
  for (const FileDescriptorProto& file : files.file()) {
    for (const ServiceDescriptorProto& service : file.service()) {
      has_service = true;
      for (const MethodDescriptorProto& method : service.method()) {
        Add(absl::StrCat(file.package(), file.package().empty() ? "" : ".", service.name(), "/",
                         method.name()),
            method, methods);
      }
    }
  }
  if (!has_service) return absl::InvalidArgumentError("its files have no service");
  Sort(methods.guarded);
  Sort(methods.streaming);
  Sort(methods.streaming_with_policy);
  return methods;
}

}  // namespace idempotency::internal
