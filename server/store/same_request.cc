#include "server/store/same_request.h"

#include <algorithm>
#include <vector>

#include "core/sha256.h"

namespace idempotency::internal {
namespace {

bool Contains(const std::vector<Sha256Digest>& digests, const Sha256Digest& digest) {
  return std::find(digests.begin(), digests.end(), digest) != digests.end();
}

}  // namespace

FingerprintMatch CompareRequest(absl::Span<const Fingerprint> stored, const ReserveOp& op) {
  const FingerprintMatch match = CompareFingerprints(stored, op.fingerprints);
  if (match == FingerprintMatch::kDifferent || op.compared_fingerprints.empty()) return match;
  const FingerprintMatch compared = CompareFingerprints(stored, op.compared_fingerprints);
  return compared == FingerprintMatch::kNothingInCommon ? match : compared;
}

bool IsSameReply(const Sha256Digest& stored, const CompleteOp& op) {
  return stored == op.reply.digest || Contains(op.other_digests, stored);
}

bool IsSameReply(const Sha256Digest& stored, const ResolveOp& op) {
  return op.reply && (stored == op.reply->digest || Contains(op.other_digests, stored));
}

}  // namespace idempotency::internal
