#ifndef IDEMPOTENCY_CORE_CANONICAL_FORM_H_
#define IDEMPOTENCY_CORE_CANONICAL_FORM_H_

#include <cstddef>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "grpc_idempotency/fingerprint_input.h"

namespace idempotency::internal {

// What protobuf's parsers take. A request off the wire is never deeper; one that a
// normaliser built may be.
inline constexpr int kMaxCanonicalDepth = 100;

// What making a form took, for tests.
struct CanonicalFormCost {
  // Bytes of the form that were written, and bytes that were moved afterwards.
  std::size_t bytes_written = 0;
  std::size_t bytes_moved = 0;
};

// Adds the canonical form of a message, as docs/fingerprint.md specifies it:
// protobuf's own encoding with every choice that it leaves open made once.
// Fields with FINGERPRINT_EXCLUDE are left out wherever they stand, and so is
// the field that `key_field` leads to, together with the messages on the way
// that have nothing else. The message is only read; it must not change
// meanwhile.
//
// Takes time in proportion to the form's size, whatever the nesting. False, with
// `out` as it was, if messages, map entries and groups are nested deeper than
// kMaxCanonicalDepth below `message`.
[[nodiscard]] bool AppendCanonicalForm(const google::protobuf::Message& message,
                                       FieldPath key_field, std::string& out,
                                       CanonicalFormCost* cost = nullptr);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_CANONICAL_FORM_H_
