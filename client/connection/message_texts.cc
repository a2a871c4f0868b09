#include "client/connection/message_texts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

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

// The first field whose text is not UTF-8, found by reflection: only for a message that has one.
absl::Status BadText(const Message& message) {
  const Path path = BadTextIn(message);
  const std::string name = absl::StrJoin(
      path.rbegin(), path.rend(), ".",
      [](std::string* out, const FieldDescriptor* field) { out->append(field->name()); });
  return InvalidField(name, "must be UTF-8");
}

// Field by field, because every request of every call passes here. A test compares them with the
// messages' descriptors.
bool AreTexts(const v1::RecordKey& key) {
  return IsUtf8(key.key()) && IsUtf8(key.operation()) && IsUtf8(key.scope()) &&
         IsUtf8(key.namespace_());
}

bool AreTexts(const google::protobuf::Map<std::string, std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(),
                     [](const auto& label) { return IsUtf8(label.first) && IsUtf8(label.second); });
}

bool AreTexts(const google::protobuf::RepeatedPtrField<v1::MetadataEntry>& metadata) {
  return std::all_of(metadata.begin(), metadata.end(),
                     [](const auto& entry) { return IsUtf8(entry.key()); });
}

bool AreTexts(const v1::Reply& reply) {
  return IsUtf8(reply.message()) && AreTexts(reply.initial_metadata()) &&
         AreTexts(reply.trailing_metadata());
}

bool AreTexts(const v1::ReserveRequest& request) {
  return AreTexts(request.record_key()) && IsUtf8(request.request_token()) &&
         AreTexts(request.parent()) && AreTexts(request.labels());
}

bool AreTexts(const v1::CompleteRequest& request) {
  return AreTexts(request.record_key()) && IsUtf8(request.reservation_token()) &&
         AreTexts(request.reply());
}

bool AreTexts(const v1::ReleaseRequest& request) {
  return AreTexts(request.record_key()) && IsUtf8(request.reservation_token()) &&
         IsUtf8(request.reason());
}

bool AreTexts(const v1::ExtendRequest& request) {
  return AreTexts(request.record_key()) && IsUtf8(request.reservation_token());
}

bool AreTexts(const v1::GetRequest& request) {
  return AreTexts(request.record_key()) && IsUtf8(request.record_id());
}

template <typename Request>
absl::Status Validate(const Request& request) {
  return AreTexts(request) ? absl::OkStatus() : BadText(request);
}

}  // namespace

absl::Status ValidateTexts(const v1::ReserveRequest& request) { return Validate(request); }
absl::Status ValidateTexts(const v1::CompleteRequest& request) { return Validate(request); }
absl::Status ValidateTexts(const v1::ReleaseRequest& request) { return Validate(request); }
absl::Status ValidateTexts(const v1::ExtendRequest& request) { return Validate(request); }
absl::Status ValidateTexts(const v1::GetRequest& request) { return Validate(request); }

}  // namespace idempotency::internal
