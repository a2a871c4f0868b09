#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_SETTLE_FINDINGS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_SETTLE_FINDINGS_H_

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/store/decision.h"
#include "server/store/record_operations.h"

namespace idempotency::internal {

// The answer to an operation whose statement did not hit its record, by the record that was read
// afterwards, if there was one. nullopt if the statement would hit that record: it has changed in
// between, and the operation is tried again.

inline std::optional<absl::StatusOr<Completion>> SettleFinding(
    const CompleteOp& op, absl::Time now, const std::optional<StoredRecord>& stored) {
  CompleteDecision decision = DecideComplete(op, now, stored);
  if (decision.writes) return std::nullopt;
  return std::move(decision.answer);
}

inline std::optional<absl::Status> SettleFinding(const ReleaseOp& op, absl::Time now,
                                                 const std::optional<StoredRecord>& stored) {
  ReleaseDecision decision = DecideRelease(op, now, stored);
  if (decision.becomes) return std::nullopt;
  return std::move(decision.answer);
}

inline std::optional<absl::StatusOr<Extension>> SettleFinding(
    const ExtendOp& op, absl::Time now, const std::optional<StoredRecord>& stored) {
  ExtendDecision decision = DecideExtend(op, now, stored);
  if (decision.lease_expires_at) return std::nullopt;
  return std::move(decision.answer);
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_SETTLE_FINDINGS_H_
