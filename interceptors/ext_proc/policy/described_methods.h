#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_DESCRIBED_METHODS_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_DESCRIBED_METHODS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"

namespace idempotency::internal {

// Methods and message types from descriptor sets, for services that are not linked into this
// program. Files are added by one thread; then it is thread-safe.
class DescribedMethods {
 public:
  DescribedMethods();
  DescribedMethods(const DescribedMethods&) = delete;
  DescribedMethods& operator=(const DescribedMethods&) = delete;

  // Adds the files of a serialised google.protobuf.FileDescriptorSet. A file that another set has
  // too must be the same there. INVALID_ARGUMENT names what is wrong.
  absl::Status Add(std::string_view descriptor_set);

  // The methods of all services that were added.
  const std::vector<const google::protobuf::MethodDescriptor*>& methods() const { return methods_; }
  // An empty message of the type.
  const google::protobuf::Message& Prototype(const google::protobuf::Descriptor& type);

 private:
  google::protobuf::DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_;
  std::vector<const google::protobuf::MethodDescriptor*> methods_;
  // The content of each file, by its name.
  std::map<std::string, std::string> files_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_DESCRIBED_METHODS_H_
