#ifndef IDEMPOTENCY_SERVER_QUEUE_RECORD_PROOF_H_
#define IDEMPOTENCY_SERVER_QUEUE_RECORD_PROOF_H_

#include <optional>

#include "server/queue/request_matches.h"
#include "server/store/record_operations.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// A verdict that a record proves without another call of the store: lines 4, 5 and 9 of the table
// of verdicts (server/store/decision.h).
enum class RecordProof { kMismatch, kReplay, kOutcomeUnknown };

// nullopt where only Reserve can decide. `matches` is of this record.
std::optional<RecordProof> ProofFrom(const Record& record, const ReserveOp& op,
                                     RequestMatches& matches);

// As Reserve answers. Without Replay::token: the reply of a record that was read is not sealed any
// more.
Verdict VerdictOf(RecordProof proof, const Record& record);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_RECORD_PROOF_H_
