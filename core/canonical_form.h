#ifndef IDEMPOTENCY_CORE_CANONICAL_FORM_H_
#define IDEMPOTENCY_CORE_CANONICAL_FORM_H_

#include <string>

#include "absl/types/span.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace idempotency {

// A field of a message or of a message in it: the fields that lead there, all
// singular. Empty for none.
using FieldPath = absl::Span<const google::protobuf::FieldDescriptor* const>;

// Adds the canonical form of a message, as docs/fingerprint.md specifies it:
// protobuf's own encoding with every choice that it leaves open made once.
// Fields with FINGERPRINT_EXCLUDE are left out wherever they stand, and so is
// the field that `key_field` leads to, together with the messages on the way
// that have nothing else. The message is only read; it must not change
// meanwhile.
void AppendCanonicalForm(const google::protobuf::Message& message, FieldPath key_field,
                         std::string& out);

}  // namespace idempotency

#endif  // IDEMPOTENCY_CORE_CANONICAL_FORM_H_
