#include "client/connection/stream_state.h"

#include <algorithm>

namespace idempotency::internal {

void StreamState::Establish(const v1::SessionLimits& limits) {
  established_ = true;
  max_in_flight_ = limits.max_in_flight();
  max_frame_bytes_ = limits.max_frame_bytes();
  if (limits.max_frame_operations() > 0) max_frame_operations_ = limits.max_frame_operations();
}

void StreamState::Add(OutstandingOperation& operation) {
  operation.state = this;
  ++operation.times_sent;
  ++unanswered_;
  if (operation.limited) ++limited_;
}

void StreamState::Settle(const OutstandingOperation& operation) {
  --unanswered_;
  if (operation.limited) --limited_;
}

void StreamState::Abandon(const OutstandingOperation& operation, Time owed_until) {
  --unanswered_;
  abandoned_.emplace(operation.id, operation.limited);
  if (operation.is_reserve && !half_closed_) cancels_.push_back(operation.id);
  Owe(owed_until);
}

bool StreamState::SettleAbandoned(std::uint64_t id) {
  const auto found = abandoned_.find(id);
  if (found == abandoned_.end()) return false;
  if (found->second) --limited_;
  abandoned_.erase(found);
  return true;
}

std::vector<std::uint64_t> StreamState::TakeCancels() {
  const auto end = cancels_.begin() +
                   static_cast<std::ptrdiff_t>(std::min(cancels_.size(), max_frame_operations_));
  std::vector<std::uint64_t> taken(cancels_.begin(), end);
  cancels_.erase(cancels_.begin(), end);
  return taken;
}

bool StreamState::BeginHalfClose(Time owed_until) {
  if (!draining_ || !writable() || unanswered() > 0) return false;
  half_closed_ = true;
  writing_ = true;
  Owe(owed_until);
  return true;
}

bool StreamState::BeginRelease() {
  if (!broken_ || writing_ || released_ || reading_ != Reading::kEnded) return false;
  released_ = true;
  return true;
}

void StreamState::DeferRead(Time read_by) {
  if (reading_ == Reading::kDue) read_by_ = read_by;
}

bool StreamState::BeginRead() {
  if (reading_ != Reading::kDue) return false;
  reading_ = Reading::kUnderWay;
  read_by_ = Time::max();
  return true;
}

}  // namespace idempotency::internal
