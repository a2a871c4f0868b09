#include "client/connection/message_texts.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"

#include "core/utf8.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A field and the fields that lead to it, the innermost first. Empty without a
// field.
using Path = std::vector<const FieldDescriptor*>;

bool HasTexts(const FieldDescriptor& field) {
  return field.type() == FieldDescriptor::TYPE_STRING ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

Path BadTextIn(const Message& message);

// In one value; `index` is -1 for a field that is not repeated.
Path BadTextIn(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  if (field.type() == FieldDescriptor::TYPE_STRING) {
    std::string scratch;
    const std::string& text =
        index < 0 ? reflection.GetStringReference(message, &field, &scratch)
                  : reflection.GetRepeatedStringReference(message, &field, index, &scratch);
    return IsUtf8(text) ? Path() : Path{&field};
  }
  Path path = BadTextIn(index < 0 ? reflection.GetMessage(message, &field)
                                  : reflection.GetRepeatedMessage(message, &field, index));
  if (!path.empty()) path.push_back(&field);
  return path;
}

Path BadTextIn(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (!HasTexts(field)) continue;
    if (!field.is_repeated()) {
      if (!reflection.HasField(message, &field)) continue;
      Path path = BadTextIn(message, field, -1);
      if (!path.empty()) return path;
      continue;
    }
    const int size = reflection.FieldSize(message, &field);
    for (int element = 0; element < size; ++element) {
      Path path = BadTextIn(message, field, element);
      if (!path.empty()) return path;
    }
  }
  return {};
}

}  // namespace

absl::Status ValidateTexts(const Message& message) {
  const Path path = BadTextIn(message);
  if (path.empty()) return absl::OkStatus();
  const std::string name = absl::StrJoin(
      path.rbegin(), path.rend(), ".",
      [](std::string* out, const FieldDescriptor* field) { out->append(field->name()); });
  return InvalidField(name, "must be UTF-8");
}

}  // namespace idempotency::internal
