#ifndef GRPC_IDEMPOTENCY_FINGERPRINT_ALGORITHM_H_
#define GRPC_IDEMPOTENCY_FINGERPRINT_ALGORITHM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/fingerprint_input.h"

namespace idempotency {

// Fingerprint version 1: SHA-256 over the method, the canonical form of the request and the
// metadata; docs/fingerprint.md specifies each byte. Equal requests have equal fingerprints in
// every build and language: map order, field order on the wire and the encoding of defaults do
// not matter. Unknown fields count. If the request is nested deeper than kMaxCanonicalDepth,
// the fingerprint has no digest, and no service accepts it; no request that was parsed from the
// wire is nested so deep.
Fingerprint FingerprintV1(const FingerprintInput& input);

// One way to compute fingerprints. A value type.
struct FingerprintAlgorithm {
  // At least 1. Two algorithms, or two sets of rules, that could give different digests for one
  // request must not share a version. Versions up to 999 are reserved for this project.
  std::uint32_t version = 0;
  // Returns 16-64 bytes, for the same input always the same. Called on gRPC's threads: it must
  // be thread-safe and must not block.
  std::function<std::string(const FingerprintInput&)> digest;

  static FingerprintAlgorithm V1();
};

// OK for 1-4 algorithms of distinct versions, each with a `digest`; otherwise INVALID_ARGUMENT,
// and the message names the fault.
absl::Status ValidateFingerprintAlgorithms(absl::Span<const FingerprintAlgorithm> algorithms);

// One fingerprint for each algorithm, in their order.
std::vector<Fingerprint> ComputeFingerprints(absl::Span<const FingerprintAlgorithm> algorithms,
                                             const FingerprintInput& input);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_FINGERPRINT_ALGORITHM_H_
