#include "core/key_field.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "core/absl_view.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

// Why `field` cannot lead to the key, or "" if it can.
std::string Objection(const FieldDescriptor& field, bool last) {
  if (field.is_repeated()) return absl::StrCat(field.full_name(), " is repeated");
  if (field.real_containing_oneof() != nullptr) {
    return absl::StrCat(field.full_name(), " is in a oneof");
  }
  if (last && field.type() != FieldDescriptor::TYPE_STRING) {
    return absl::StrCat(field.full_name(), " is not a string");
  }
  if (!last && field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return absl::StrCat(field.full_name(), " is not a message");
  }
  return "";
}

}  // namespace

KeyField::KeyField(std::string name, std::vector<const FieldDescriptor*> path)
    : name_(std::move(name)), path_(std::move(path)) {}

absl::StatusOr<KeyField> KeyField::Resolve(const MethodDescriptor& method, std::string_view name) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("/", method.service()->full_name(), "/",
                                                   method.name(), ": the key field \"",
                                                   AbslView(name), "\" cannot be used: ", why));
  };
  const std::vector<std::string> names = absl::StrSplit(AbslView(name), '.');
  std::vector<const FieldDescriptor*> path;
  const Descriptor* message = method.input_type();
  for (const std::string& part : names) {
    const FieldDescriptor* field = message->FindFieldByName(part);
    if (field == nullptr) {
      return wrong(absl::StrCat(message->full_name(), " has no field \"", part, "\""));
    }
    const std::string objection = Objection(*field, path.size() + 1 == names.size());
    if (!objection.empty()) return wrong(objection);
    path.push_back(field);
    message = field->message_type();
  }
  return KeyField(std::string(name), std::move(path));
}

std::string KeyField::Read(const Message& request) const {
  const Message* message = &request;
  for (const FieldDescriptor* field : path().first(path_.size() - 1)) {
    message = &message->GetReflection()->GetMessage(*message, field);
  }
  return message->GetReflection()->GetString(*message, path_.back());
}

}  // namespace idempotency::internal
