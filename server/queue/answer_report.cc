#include "server/queue/answer_report.h"

#include <optional>
#include <variant>

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

bool IsStoreFailure(const absl::Status& answer) {
  if (answer.ok()) return false;
  const std::optional<Reason> reason = ReasonOf(answer);
  return !reason.has_value() || reason == Reason::kStoreUnavailable ||
         reason == Reason::kRecordDamaged || reason == Reason::kRecordIdCollision;
}

void ReportAnswer(Observer& observer, OperationKind kind, const RecordId& id,
                  const absl::Status& answer) {
  if (answer.ok()) return;
  if (ReasonOf(answer) == Reason::kReservationLost) {
    observer.ReservationLost(kind);
  } else if (IsStoreFailure(answer)) {
    observer.StoreFailed(kind, id, answer);
  }
}

void ReportAnswer(Observer& observer, OperationKind kind, const RecordId& id,
                  const absl::StatusOr<Verdict>& answer) {
  if (!answer.ok()) return ReportAnswer(observer, kind, id, answer.status());
  if (const auto* const unknown = std::get_if<OutcomeUnknown>(&*answer)) {
    if (unknown->marked) observer.MarkedUnknown();
    return;
  }
  const Reserved* const reserved = std::get_if<Reserved>(&*answer);
  if (reserved == nullptr) return;
  if (reserved->took_over) observer.TookOver();
  if (reserved->after_expiry) observer.RetriedAfterExpiry();
  if (reserved->repeated) observer.GrantRepeated();
  if (reserved->relaxed) observer.GrantRelaxed();
}

void ReportAnswer(Observer& observer, OperationKind kind, const RecordId& id,
                  const absl::StatusOr<Completion>& answer) {
  if (!answer.ok()) return ReportAnswer(observer, kind, id, answer.status());
  if (answer->lease_overrun && !answer->repeated) observer.LeaseOverrun();
}

void ReportAnswer(Observer& observer, const ReleaseOp& op, const absl::Status& answer) {
  ReportAnswer(observer, OperationKind::kRelease, op.id, answer);
  if (answer.ok() && op.outcome_unknown) observer.MarkedUnknown();
}

}  // namespace idempotency::internal
