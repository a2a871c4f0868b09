#include "interceptors/ext_proc/policy/described_methods.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.pb.h"

namespace idempotency::internal {
namespace {

// Keeps the first error of a file.
class FirstError final : public google::protobuf::DescriptorPool::ErrorCollector {
 public:
  void AddError(const std::string& /*file*/, const std::string& element,
                const google::protobuf::Message* /*descriptor*/, ErrorLocation /*location*/,
                const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(element, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

DescribedMethods::DescribedMethods() : factory_(&pool_) {}

absl::Status DescribedMethods::Add(std::string_view descriptor_set) {
  google::protobuf::FileDescriptorSet set;
  if (!set.ParseFromArray(descriptor_set.data(), static_cast<int>(descriptor_set.size())) ||
      set.file().empty()) {
    return absl::InvalidArgumentError(
        "is not a descriptor set: make it with `protoc --include_imports --descriptor_set_out`");
  }
  for (const google::protobuf::FileDescriptorProto& file : set.file()) {
    // Sets share their imports.
    if (pool_.FindFileByName(file.name()) != nullptr) {
      if (files_.at(file.name()) == file.SerializeAsString()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("its file ", file.name(), " differs from that of another set"));
    }
    files_.emplace(file.name(), file.SerializeAsString());
    FirstError error;
    const google::protobuf::FileDescriptor* const built =
        pool_.BuildFileCollectingErrors(file, &error);
    if (built == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("its file ", file.name(), " is not usable (", error.text(),
                       "): make it with `protoc --include_imports --descriptor_set_out`"));
    }
    for (int i = 0; i < built->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor& service = *built->service(i);
      for (int j = 0; j < service.method_count(); ++j) methods_.push_back(service.method(j));
    }
  }
  return absl::OkStatus();
}

const google::protobuf::Message& DescribedMethods::Prototype(
    const google::protobuf::Descriptor& type) {
  return *factory_.GetPrototype(&type);
}

}  // namespace idempotency::internal
