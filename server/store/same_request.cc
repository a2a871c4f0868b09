#include <algorithm>

#include "server/store/store.h"

namespace idempotency::internal {

FingerprintMatch CompareRequest(absl::Span<const Fingerprint> stored, const ReserveOp& op) {
  const FingerprintMatch match = CompareFingerprints(stored, op.fingerprints);
  if (match == FingerprintMatch::kDifferent || op.compared_fingerprints.empty()) return match;
  const FingerprintMatch compared = CompareFingerprints(stored, op.compared_fingerprints);
  return compared == FingerprintMatch::kNothingInCommon ? match : compared;
}

bool IsSameReply(const std::array<std::uint8_t, 32>& stored, const CompleteOp& op) {
  return stored == op.reply.digest || std::find(op.other_digests.begin(), op.other_digests.end(),
                                                stored) != op.other_digests.end();
}

}  // namespace idempotency::internal
