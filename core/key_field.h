#ifndef IDEMPOTENCY_CORE_KEY_FIELD_H_
#define IDEMPOTENCY_CORE_KEY_FIELD_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "core/canonical_form.h"

namespace idempotency::internal {

// The field of a method's request that may carry its key (AIP-155:
// `request_id`). Immutable.
class KeyField {
 public:
  // `name` is a field of the request or, with dots, of a message in it:
  // "header.request_id". INVALID_ARGUMENT, with the method and the fault,
  // unless it leads through singular messages to a singular string, none of
  // them in a oneof.
  static absl::StatusOr<KeyField> Resolve(const google::protobuf::MethodDescriptor& method,
                                          std::string_view name);

  // The value of the field; "" if it, or a message on the path, is not set.
  std::string Read(const google::protobuf::Message& request) const;

  const std::string& name() const { return name_; }
  FieldPath path() const { return path_; }

 private:
  KeyField(std::string name, std::vector<const google::protobuf::FieldDescriptor*> path);

  std::string name_;
  // Never empty; the last one is the string.
  std::vector<const google::protobuf::FieldDescriptor*> path_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_KEY_FIELD_H_
