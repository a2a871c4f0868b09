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

// Fingerprint version 1: SHA-256 over the method, the canonical form of the
// request and the metadata, as docs/fingerprint.md specifies byte by byte.
// Equal for equal requests in every build and language; different map orders,
// field orders on the wire and spellings of defaults do not matter. Unknown
// fields count. Without a digest, which no service takes, if the request is nested
// deeper than kMaxCanonicalDepth; none that came off the wire is.
Fingerprint FingerprintV1(const FingerprintInput& input);

// One way to compute fingerprints. A value type.
struct FingerprintAlgorithm {
  // At least 1. Two algorithms, or two sets of rules, that could give different
  // digests for one request must not share a version. Those up to 999 are this
  // project's own.
  std::uint32_t version = 0;
  // 16-64 bytes, the same for the same input for ever. Called on gRPC's
  // threads: it must be thread-safe and must not block.
  std::function<std::string(const FingerprintInput&)> digest;

  static FingerprintAlgorithm V1();
};

// OK for 1-4 algorithms of distinct versions that can be called; otherwise
// INVALID_ARGUMENT saying what is wrong.
absl::Status ValidateFingerprintAlgorithms(absl::Span<const FingerprintAlgorithm> algorithms);

// One fingerprint for each algorithm, in their order.
std::vector<Fingerprint> ComputeFingerprints(absl::Span<const FingerprintAlgorithm> algorithms,
                                             const FingerprintInput& input);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_FINGERPRINT_ALGORITHM_H_
