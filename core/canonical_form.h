#ifndef IDEMPOTENCY_CORE_CANONICAL_FORM_H_
#define IDEMPOTENCY_CORE_CANONICAL_FORM_H_

#include <string>

#include "google/protobuf/message.h"

namespace idempotency {

// Adds the canonical form of a message, as docs/fingerprint.md specifies it:
// protobuf's own encoding with every choice that it leaves open made once.
// The message is only read; it must not change meanwhile.
void AppendCanonicalForm(const google::protobuf::Message& message, std::string& out);

}  // namespace idempotency

#endif  // IDEMPOTENCY_CORE_CANONICAL_FORM_H_
