#include "server/queue/held_call.h"

#include <cstddef>
#include <utility>

namespace idempotency::internal {
namespace {

HeldCall::Typed CallOf(QueueKind queue, std::vector<QueuedPtr> operations) {
  if (queue == QueueKind::kComplete) return StoreCall<CompleteOp>(std::move(operations));
  return StoreCall<ReserveOp>(std::move(operations));
}

bool BeginThrough(HeldSession& session, const StoreCall<ReserveOp>& call) {
  return session.BeginReserve(call.ops);
}

bool BeginThrough(HeldSession& session, const StoreCall<CompleteOp>& call) {
  std::size_t bytes = 0;
  for (const CompleteOp& op : call.ops) bytes += op.reply.bytes.size();
  return bytes <= HeldSession::kMaxReplyBytes && session.BeginComplete(call.ops);
}

void FinishThrough(HeldSession& session, StoreCall<ReserveOp>& call) {
  call.answers = session.FinishReserve();
}

void FinishThrough(HeldSession& session, StoreCall<CompleteOp>& call) {
  call.answers = session.FinishComplete();
}

}  // namespace

bool HeldCall::IsFor(QueueKind queue) {
  return queue == QueueKind::kComplete || queue == QueueKind::kReserve ||
         queue == QueueKind::kReserveRelaxed;
}

HeldCall::HeldCall(QueueKind queue, std::vector<QueuedPtr> operations)
    : call_(CallOf(queue, std::move(operations))) {}

bool HeldCall::Begin(HeldSession& session, SteadyTime now) {
  started_at_ = now;
  begun_ = std::visit([&](const auto& call) { return BeginThrough(session, call); }, call_);
  return begun_;
}

void HeldCall::Finish(HeldSession& session) {
  std::visit([&](auto& call) { FinishThrough(session, call); }, call_);
}

}  // namespace idempotency::internal
