#include "interceptors/server/live_execution.h"

#include <spdlog/spdlog.h>

#include <future>
#include <utility>

#include "core/limits.h"
#include "core/utf8.h"
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

void LiveExecution::RefersTo(std::string_view type, std::string_view id) {
  if (type.size() + id.size() > limits::kMaxReferenceBytes || !IsUtf8(type) || !IsUtf8(id)) {
    spdlog::error("{}: record {}: a reference must be UTF-8 of up to {} bytes: not kept",
                  operation_->name, record_id_, limits::kMaxReferenceBytes);
    return;
  }
  MutexLock lock(mutex_);
  reference_.emplace();
  reference_->set_type(std::string(type));
  reference_->set_id(std::string(id));
}

std::optional<v1::Reference> LiveExecution::reference() const {
  MutexLock lock(mutex_);
  return reference_;
}

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
