#include "grpc_idempotency/client/recorded_outcome.h"

#include "client/retries/outcome_rule.h"

namespace idempotency {

bool IsRecordedOutcome(const grpc::Status& status, const grpc::ClientContext& context) {
  return status.ok() || internal::IsReplayed(status, context.GetServerTrailingMetadata());
}

}  // namespace idempotency
