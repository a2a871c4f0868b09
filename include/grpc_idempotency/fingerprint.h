#ifndef GRPC_IDEMPOTENCY_FINGERPRINT_H_
#define GRPC_IDEMPOTENCY_FINGERPRINT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency {

// Version and digest of a request's canonical form. A value type.
struct Fingerprint {
  std::uint32_t version = 0;
  std::string digest;

  friend bool operator==(const Fingerprint& a, const Fingerprint& b) {
    return a.version == b.version && a.digest == b.digest;
  }
};

// How a request compares with what a record holds.
enum class FingerprintMatch {
  kSame,             // every version in common agrees, and there is one
  kDifferent,        // a version in common differs
  kNothingInCommon,  // cannot tell
};
FingerprintMatch CompareFingerprints(absl::Span<const Fingerprint> stored,
                                     absl::Span<const Fingerprint> sent);

// OK for 1-4 fingerprints of distinct versions >= 1 whose digests have 16-64
// bytes; otherwise INVALID_ARGUMENT / REQUEST_INVALID.
absl::Status ValidateFingerprints(absl::Span<const Fingerprint> fingerprints);
// The same of those on the wire, without converting them.
absl::Status ValidateWireFingerprints(
    const google::protobuf::RepeatedPtrField<v1::Fingerprint>& fingerprints);

// One column's worth of bytes, for stores: version (4 bytes big-endian),
// length (1 byte), digest, repeated. Decode answers DATA_LOSS for anything
// that Encode did not write.
std::string EncodeFingerprints(absl::Span<const Fingerprint> fingerprints);
absl::StatusOr<std::vector<Fingerprint>> DecodeFingerprints(std::string_view bytes);

Fingerprint FromProto(const v1::Fingerprint& proto);
v1::Fingerprint ToProto(const Fingerprint& fingerprint);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_FINGERPRINT_H_
