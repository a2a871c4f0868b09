#include "interceptors/server/live_execution.h"

#include <utility>

#include "interceptors/server/wire_time.h"

namespace idempotency {

LiveExecution::LiveExecution(std::shared_ptr<const GuardedOperation> operation,
                             const v1::ReserveRequest& question, const v1::ReserveResponse& grant,
                             std::shared_ptr<Recording> recording)
    : operation_(std::move(operation)),
      question_(question),
      grant_(grant.reserved()),
      record_id_(grant.record_id()),
      recording_(std::move(recording)) {}

absl::Time LiveExecution::expires_at() const { return FromWire(grant_.expires_at()); }

}  // namespace idempotency
