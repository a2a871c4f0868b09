#ifndef IDEMPOTENCY_CORE_CANONICAL_FORM_H_
#define IDEMPOTENCY_CORE_CANONICAL_FORM_H_

#include <cstddef>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "grpc_idempotency/fingerprint_input.h"

namespace idempotency::internal {

// The limit of protobuf's parsers. A received request is never deeper; one that a
// normaliser built may be.
inline constexpr int kMaxCanonicalDepth = 100;

// The work of making a form, for tests.
struct CanonicalFormCost {
  // Bytes of the form that were written, and bytes that were moved afterwards.
  std::size_t bytes_written = 0;
  std::size_t bytes_moved = 0;
};

// Adds the canonical form of a message, as docs/fingerprint.md specifies it:
// protobuf's own encoding with every choice that it leaves open made once.
// Fields with FINGERPRINT_EXCLUDE are left out at any depth, and so is the
// field at the path `key_field`, together with the messages on the path that
// contain nothing else. The message is only read; it must not change meanwhile.
//
// Takes time in proportion to the form's size, for any nesting. False, with
// `out` unchanged, if messages, map entries and groups are nested deeper than
// kMaxCanonicalDepth below `message`.
[[nodiscard]] bool AppendCanonicalForm(const google::protobuf::Message& message,
                                       FieldPath key_field, std::string& out,
                                       CanonicalFormCost* cost = nullptr);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_CANONICAL_FORM_H_
