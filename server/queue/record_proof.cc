#include "server/queue/record_proof.h"

#include "grpc_idempotency/fingerprint.h"
#include "server/store/decision.h"

namespace idempotency::internal {

std::optional<RecordProof> ProofFrom(const Record& record, const ReserveOp& op,
                                     RequestMatches& matches) {
  if (record.key != op.key) return std::nullopt;
  switch (matches.Of(op)) {
    case FingerprintMatch::kNothingInCommon:
      return std::nullopt;
    case FingerprintMatch::kDifferent:
      return RecordProof::kMismatch;
    case FingerprintMatch::kSame:
      break;
  }
  if (record.state == RecordState::kCompleted && record.reply.has_value() &&
      record.completed_at.has_value()) {
    return RecordProof::kReplay;
  }
  if (record.state == RecordState::kUnknown && !op.recover) return RecordProof::kOutcomeUnknown;
  return std::nullopt;
}

Verdict VerdictOf(RecordProof proof, const Record& record) {
  switch (proof) {
    case RecordProof::kMismatch:
      return Mismatch{record.attempt};
    case RecordProof::kReplay:
      return Replay{*record.reply, *record.completed_at, record.expires_at, record.attempt,
                    record.labels};
    case RecordProof::kOutcomeUnknown:
      break;
  }
  return ToOutcomeUnknown(record);
}

}  // namespace idempotency::internal
