#include "server/queue/request_matches.h"

#include <algorithm>

namespace idempotency::internal {

bool RequestMatches::IsSame(const Fingerprints& a, const Fingerprints& b) const {
  const auto is_left_out = [this](const Fingerprint& sent) {
    return std::none_of(
        record_.fingerprints.begin(), record_.fingerprints.end(),
        [&sent](const Fingerprint& stored) { return stored.version == sent.version; });
  };
  auto of_a = a.begin();
  auto of_b = b.begin();
  while (true) {
    of_a = std::find_if_not(of_a, a.end(), is_left_out);
    of_b = std::find_if_not(of_b, b.end(), is_left_out);
    if (of_a == a.end() || of_b == b.end()) return of_a == a.end() && of_b == b.end();
    if (!(*of_a++ == *of_b++)) return false;
  }
}

FingerprintMatch RequestMatches::Of(const ReserveOp& op) {
  for (const auto& [compared, match] : kept_) {
    if (IsSame(compared->fingerprints, op.fingerprints) &&
        IsSame(compared->compared_fingerprints, op.compared_fingerprints)) {
      return match;
    }
  }
  const FingerprintMatch match = batcher_.MatchRequest(record_, op);
  if (kept_.size() < kMaxKept) kept_.emplace_back(&op, match);
  return match;
}

}  // namespace idempotency::internal
