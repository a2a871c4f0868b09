#include "server/queue/request_matches.h"

namespace idempotency::internal {
namespace {

bool SameRequest(const ReserveOp& a, const ReserveOp& b) {
  return a.fingerprints == b.fingerprints && a.compared_fingerprints == b.compared_fingerprints;
}

}  // namespace

FingerprintMatch RequestMatches::Of(const ReserveOp& op) {
  for (const auto& [compared, match] : kept_) {
    if (SameRequest(*compared, op)) return match;
  }
  const FingerprintMatch match = batcher_.MatchRequest(record_, op);
  if (kept_.size() < kMaxKept) kept_.emplace_back(&op, match);
  return match;
}

}  // namespace idempotency::internal
