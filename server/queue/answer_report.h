#ifndef IDEMPOTENCY_SERVER_QUEUE_ANSWER_REPORT_H_
#define IDEMPOTENCY_SERVER_QUEUE_ANSWER_REPORT_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "grpc_idempotency/uuid.h"
#include "server/observability/observer.h"
#include "server/queue/store_method.h"
#include "server/store/record_operations.h"

namespace idempotency::internal {

// Reports one answer of the store to the metrics.
void ReportAnswer(Observer& observer, OperationKind kind, const RecordId& id,
                  const absl::Status& answer);
void ReportAnswer(Observer& observer, OperationKind kind, const RecordId& id,
                  const absl::StatusOr<Verdict>& answer);
void ReportAnswer(Observer& observer, OperationKind kind, const RecordId& id,
                  const absl::StatusOr<Completion>& answer);
// A release.
void ReportAnswer(Observer& observer, const ReleaseOp& op, const absl::Status& answer);
template <typename T>
void ReportAnswer(Observer& observer, OperationKind kind, const RecordId& id,
                  const absl::StatusOr<T>& answer) {
  ReportAnswer(observer, kind, id, answer.status());
}
template <typename Op, typename Answer>
void ReportAnswer(Observer& observer, const Op& op, const Answer& answer) {
  ReportAnswer(observer, StoreMethod<Op>::kKind, op.id, answer);
}

// Whether the metrics count the answer as a failure of the store.
bool IsStoreFailure(const absl::Status& answer);

inline const absl::Status& StatusOf(const absl::Status& answer) { return answer; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& answer) {
  return answer.status();
}

// The first failure of the store in the answers of a call; OK if there is none.
template <typename Answer>
absl::Status FirstFailureIn(const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    if (IsStoreFailure(StatusOf(answer))) return StatusOf(answer);
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_ANSWER_REPORT_H_
