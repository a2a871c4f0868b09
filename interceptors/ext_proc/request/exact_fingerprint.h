#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_REQUEST_EXACT_FINGERPRINT_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_REQUEST_EXACT_FINGERPRINT_H_

#include <string_view>

#include "absl/types/span.h"

#include "grpc_idempotency/fingerprint.h"

namespace idempotency::internal {

// Fingerprint version 2: SHA-256 over the exact bytes of a request's parts, each after its length
// (docs/fingerprint.md). For requests whose messages have no descriptor: two encodings of one
// message are two requests.
Fingerprint ExactFingerprint(absl::Span<const std::string_view> parts);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_REQUEST_EXACT_FINGERPRINT_H_
