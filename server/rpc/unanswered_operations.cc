#include "server/rpc/unanswered_operations.h"

#include <utility>

#include "absl/container/btree_map.h"

#include "grpc_idempotency/errors.h"
#include "server/rpc/session_errors.h"

namespace idempotency::internal {

absl::Status UnansweredOperations::Add(RequestFrame& frame) {
  const std::size_t before = limited_;
  for (std::size_t i = 0; i < frame.operations().size(); ++i) {
    RequestFrame::Operation& added = frame.operations()[i];
    const auto [place, unused] = operations_.try_emplace(added.request->id());
    if (!unused) {
      for (std::size_t j = 0; j < i; ++j) {
        bytes_ -= frame.operations()[j].unanswered->bytes();
        operations_.erase(frame.operations()[j].request->id());
      }
      limited_ = before;
      return InvalidField("operations.id", "is the id of an operation that is not answered yet");
    }
    place->second = std::move(added.made);
    added.unanswered = place->second.get();
    bytes_ += added.unanswered->bytes();
    if (added.unanswered->is_limited() && ++limited_ > max_in_flight_ && added.refusal.ok()) {
      added.refusal =
          SessionOverloaded("More operations are in flight than this session may have.");
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<UnansweredOperation> UnansweredOperations::Remove(std::uint64_t id) {
  const auto found = operations_.find(id);
  std::unique_ptr<UnansweredOperation> removed = std::move(found->second);
  operations_.erase(found);
  if (removed->is_limited()) --limited_;
  bytes_ -= removed->bytes();
  return removed;
}

InFlightWaiters::WaiterPtr UnansweredOperations::WaiterOf(std::uint64_t id) const {
  const auto found = operations_.find(id);
  return found == operations_.end() ? nullptr : found->second->waiting();
}

std::vector<InFlightWaiters::WaiterPtr> UnansweredOperations::Waiters() const {
  // Not in the order of a hash table.
  absl::btree_map<std::uint64_t, InFlightWaiters::WaiterPtr> by_id;
  for (const auto& [id, operation] : operations_) {
    if (InFlightWaiters::WaiterPtr its = operation->waiting()) by_id.emplace(id, std::move(its));
  }
  std::vector<InFlightWaiters::WaiterPtr> waiters;
  waiters.reserve(by_id.size());
  for (auto& [id, waiter] : by_id) waiters.push_back(std::move(waiter));
  return waiters;
}

}  // namespace idempotency::internal
