#include "server/queue/held_call.h"

#include <cstddef>
#include <utility>

namespace idempotency::internal {
namespace {

HeldCall::Typed CallOf(QueueKind queue, std::vector<QueuedPtr> operations) {
  if (queue == QueueKind::kComplete) return StoreCall<CompleteOp>(std::move(operations));
  return StoreCall<ReserveOp>(std::move(operations));
}

bool BeginThrough(HeldConnection& connection, const StoreCall<ReserveOp>& call) {
  return connection.BeginReserve(call.ops);
}

bool BeginThrough(HeldConnection& connection, const StoreCall<CompleteOp>& call) {
  std::size_t bytes = 0;
  for (const CompleteOp& op : call.ops) bytes += op.reply.bytes.size();
  return bytes <= HeldConnection::kMaxReplyBytes && connection.BeginComplete(call.ops);
}

void FinishThrough(HeldConnection& connection, StoreCall<ReserveOp>& call) {
  call.answers = connection.FinishReserve();
}

void FinishThrough(HeldConnection& connection, StoreCall<CompleteOp>& call) {
  call.answers = connection.FinishComplete();
}

}  // namespace

bool HeldCall::IsFor(QueueKind queue) {
  return queue == QueueKind::kComplete || queue == QueueKind::kReserve ||
         queue == QueueKind::kReserveRelaxed;
}

HeldCall::HeldCall(QueueKind queue, std::vector<QueuedPtr> operations)
    : call_(CallOf(queue, std::move(operations))) {}

bool HeldCall::Begin(HeldConnection& connection, SteadyTime now) {
  started_at_ = now;
  begun_ = std::visit([&](const auto& call) { return BeginThrough(connection, call); }, call_);
  return begun_;
}

void HeldCall::Finish(HeldConnection& connection) {
  std::visit([&](auto& call) { FinishThrough(connection, call); }, call_);
}

}  // namespace idempotency::internal
