#ifndef GRPC_IDEMPOTENCY_FINGERPRINT_H_
#define GRPC_IDEMPOTENCY_FINGERPRINT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/repeated_field.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency {

// Version and digest of a request's canonical form. A value type.
struct Fingerprint {
  std::uint32_t version = 0;
  std::string digest;
  // 0 for the digest itself, as callers send it. Otherwise the id of the key of the service's
  // key ring under which `digest` is an HMAC of it (docs/sealing.md); only the service's store
  // has such fingerprints.
  std::uint32_t key_id = 0;

  friend bool operator==(const Fingerprint& a, const Fingerprint& b) {
    return a.version == b.version && a.key_id == b.key_id && a.digest == b.digest;
  }
};

// The comparison of a request with its record. Fingerprints under different keys have no version
// in common.
enum class FingerprintMatch {
  kSame,             // at least one version in common, and all of them agree
  kDifferent,        // a version in common differs
  kNothingInCommon,  // no version in common: the comparison is impossible
};
FingerprintMatch CompareFingerprints(absl::Span<const Fingerprint> stored,
                                     absl::Span<const Fingerprint> sent);

// OK for 1-4 fingerprints of distinct versions >= 1 whose digests have 16-64
// bytes; otherwise INVALID_ARGUMENT / REQUEST_INVALID. A version is distinct
// without its key: a digest and an HMAC of it are the same version.
absl::Status ValidateFingerprints(absl::Span<const Fingerprint> fingerprints);
// The same for wire messages, without converting them.
absl::Status ValidateWireFingerprints(
    const google::protobuf::RepeatedPtrField<v1::Fingerprint>& fingerprints);

// For stores and ledgers.
//
// The encoding for one column of a store: version (4 bytes big-endian), length (1 byte),
// digest, repeated. Under a key the length has its highest bit set, and the key's id (4 bytes
// big-endian) follows it. Decode returns DATA_LOSS for bytes that Encode did not write.
std::string EncodeFingerprints(absl::Span<const Fingerprint> fingerprints);
absl::StatusOr<std::vector<Fingerprint>> DecodeFingerprints(std::string_view bytes);

// To and from the wire. Under a key, the version there has its highest bit set, and the digest has
// the key's id (4 bytes big-endian) before it: what Get() shows can be sent in a Reserve.
Fingerprint FromProto(const v1::Fingerprint& proto);
v1::Fingerprint ToProto(const Fingerprint& fingerprint);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_FINGERPRINT_H_
