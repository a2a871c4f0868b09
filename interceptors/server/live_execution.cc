#include "interceptors/server/live_execution.h"

#include <future>
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
      labels_(grant_.labels().begin(), grant_.labels().end()),
      recording_(std::move(recording)) {}

absl::Time LiveExecution::expires_at() const { return FromWire(grant_.expires_at()); }

absl::Status LiveExecution::Checkpoint(std::string_view progress) {
  // Shared: the thread that brings the answer may still be inside set_value()
  // when this one goes on.
  const auto stored = std::make_shared<std::promise<absl::Status>>();
  recording_->Checkpoint(std::string(progress),
                         [stored](absl::Status status) { stored->set_value(std::move(status)); });
  return stored->get_future().get();
}

void LiveExecution::Checkpoint(std::string progress, std::function<void(absl::Status)> done) {
  recording_->Checkpoint(std::move(progress), std::move(done));
}

}  // namespace idempotency
