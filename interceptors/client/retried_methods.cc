#include "interceptors/client/retried_methods.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor_database.h"

#include "core/declared_policy.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

// A protobuf name: nothing in it needs escaping in JSON.
bool IsProtobufName(absl::string_view name) {
  for (const char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return false;
  }
  return !name.empty();
}

// True if its own proto declares it as guarded, or `named` is set.
bool IsRetried(const MethodDescriptor& method, bool named) {
  if (IsHarmlessToRepeat(method)) return true;
  if (!named) return IsDeclaredGuarded(method);
  const absl::StatusOr<v1::Policy> declared = DeclaredPolicy(method.options());
  return declared.ok() && KeyRule(method, *declared) != v1::Policy::KEY_NONE;
}

void AddMethods(const ServiceDescriptor& service, bool named, std::set<RetriedName>& names) {
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& method = *service.method(i);
    if (IsRetried(method, named)) {
      names.insert({std::string(service.full_name()), std::string(method.name())});
    }
  }
}

std::set<RetriedName> MethodsOfThisProgram() {
  std::set<RetriedName> names;
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  std::vector<std::string> files;
  DescriptorPool::internal_generated_database()->FindAllFileNames(&files);
  for (const std::string& name : files) {
    const FileDescriptor* file = pool.FindFileByName(name);
    if (file == nullptr) continue;
    for (int i = 0; i < file->service_count(); ++i) {
      AddMethods(*file->service(i), /*named=*/false, names);
    }
  }
  return names;
}

absl::Status AddNamed(const std::string& name, std::set<RetriedName>& names) {
  const std::size_t slash = name.find('/');
  const std::string service_name = name.substr(0, slash);
  const std::string method_name = slash == std::string::npos ? "" : name.substr(slash + 1);
  if (!IsProtobufName(service_name) ||
      (slash != std::string::npos && !IsProtobufName(method_name))) {
    return InvalidField(
        "guarded", "must hold names such as payments.v1.Payments or payments.v1.Payments/Charge");
  }
  const ServiceDescriptor* service =
      DescriptorPool::generated_pool()->FindServiceByName(service_name);
  if (service == nullptr) {
    names.insert({service_name, method_name});
    return absl::OkStatus();
  }
  if (slash == std::string::npos) {
    AddMethods(*service, /*named=*/true, names);
    return absl::OkStatus();
  }
  const MethodDescriptor* method = service->FindMethodByName(method_name);
  if (method == nullptr || !IsRetried(*method, /*named=*/true)) {
    return InvalidField(
        "guarded", absl::StrCat("holds ", name,
                                method == nullptr ? ", which its service does not have"
                                                  : ", whose calls carry no key: a retry could "
                                                    "run it a second time"));
  }
  names.insert({service_name, method_name});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::set<RetriedName>> RetriedMethods(const std::set<std::string>& named) {
  if (named.empty()) return MethodsOfThisProgram();
  std::set<RetriedName> names;
  for (const std::string& name : named) {
    if (absl::Status added = AddNamed(name, names); !added.ok()) return added;
  }
  return names;
}

}  // namespace idempotency::internal
