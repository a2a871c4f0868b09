#include "server/queue/operation_queues.h"

#include <algorithm>
#include <utility>

#include "server/queue/queue_errors.h"

namespace idempotency::internal {
namespace {

// The limit of operations that end work.
std::size_t ForEndsOfWork(std::size_t limit) { return limit + limit / 8; }
// That of namespaces with less than their share.
std::size_t WithReserve(std::size_t limit) { return limit + limit / 4; }

std::size_t ShareOf(QueueKind kind) {
  switch (kind) {
    case QueueKind::kComplete:
      break;
    case QueueKind::kRelease:
    case QueueKind::kExtend:
    case QueueKind::kReserve:
      return OperationQueues::kSmallShare;
    case QueueKind::kReserveRelaxed:
    case QueueKind::kReserveForWaiter:
    case QueueKind::kGetForWaiter:
    case QueueKind::kGet:
      return OperationQueues::kShare;
  }
  // It is the first: none is in front of it.
  return 1;
}

// Has a reservation follow the one in front of it. Bounded by the operations of a batch.
class Join {
 public:
  explicit Join(std::size_t most) : left_(most) {}

  bool operator()(QueuedPtr& leader, QueuedPtr& behind) const {
    if (left_ == 0 ||
        (leader->queue != QueueKind::kReserve && leader->queue != QueueKind::kReserveRelaxed)) {
      return false;
    }
    const ReserveOp& first = QueuedFor<ReserveOp>::Of(*leader).op;
    const ReserveOp& later = QueuedFor<ReserveOp>::Of(*behind).op;
    if (!(first.key == later.key) || first.fingerprints != later.fingerprints) return false;
    leader->followers.push_back(std::move(behind));
    --left_;
    return true;
  }

 private:
  mutable std::size_t left_;
};

}  // namespace

absl::Status OperationQueues::Admit(QueuedOperation& queued) {
  if (!HasPlaceFor(queued)) return QueueIsFull();
  std::optional<MemoryBudget::Hold> hold =
      budget_.TryHoldOperation(queued.name_space(), queued.bytes, BringsWork(queued.kind()));
  if (!hold.has_value()) return QueueIsFull();
  queued.hold = *std::move(hold);
  return absl::OkStatus();
}

bool OperationQueues::HasPlaceFor(const QueuedOperation& queued) const {
  if (size_ < max_queued_) return true;
  if (size_ >= WithReserve(max_queued_)) return false;
  if (BringsWork(queued.kind())) return !HasItsShare(queued.name_space(), 0);
  // A namespace that fills the queue alone leaves room for one that has nothing here yet.
  const bool is_last_room = size_ >= ForEndsOfWork(max_queued_);
  return !is_last_room || !HasItsShare(queued.name_space(), 1);
}

bool OperationQueues::HasItsShare(std::string_view name_space, std::size_t others) const {
  std::size_t its = 0;
  std::size_t namespaces = 0;
  for (const FairQueue<QueuedPtr>& queue : queues_) {
    its += queue.SizeOf(name_space);
    namespaces = std::max(namespaces, queue.namespaces());
  }
  // One more, since its first operation is not counted yet.
  return its >= max_queued_ / (namespaces + others + (its == 0 ? 1 : 0));
}

void OperationQueues::Push(QueuedPtr queued) {
  FairQueue<QueuedPtr>& queue = QueueOf(queued->queue);
  const RecordId id = queued->id;
  const std::string_view name_space = queued->name_space();
  queue.Push(name_space, id, std::move(queued));
  ++size_;
}

void OperationQueues::PutBack(std::vector<QueuedPtr> operations) {
  for (auto it = operations.rbegin(); it != operations.rend(); ++it) {
    FairQueue<QueuedPtr>& queue = QueueOf((*it)->queue);
    const RecordId id = (*it)->id;
    const std::string_view name_space = (*it)->name_space();
    queue.PutBack(name_space, id, std::move(*it));
  }
  size_ += operations.size();
}

std::size_t OperationQueues::PromisedBehind(std::size_t queue) const {
  std::size_t promised = 0;
  for (std::size_t behind = queue + 1; behind < kQueueKinds; ++behind) {
    promised +=
        std::min(queues_[behind].size(), max_batch_ / ShareOf(static_cast<QueueKind>(behind)));
  }
  return promised;
}

OperationBatch OperationQueues::Take(const Lanes& lanes, SteadyTime now,
                                     std::vector<QueuedPtr>& unwanted) {
  const auto is_unwanted = [now](const QueuedPtr& queued) { return queued->IsUnwanted(now); };
  const auto bytes_of = [](const QueuedPtr& queued) { return queued->bytes; };
  const Join join(max_batch_);
  std::size_t room = max_batch_;
  OperationBatch batch;
  std::size_t left = 0;
  for (std::size_t index = 0; index < kQueueKinds; ++index) {
    const auto kind = static_cast<QueueKind>(index);
    if (kind == QueueKind::kReserveRelaxed ? lanes.relaxed : lanes.durable) {
      const std::size_t promised = std::min(PromisedBehind(index), room);
      batch.of(kind) = queues_[index].Take({room - promised, kMaxBatchBytes}, bytes_of, is_unwanted,
                                           unwanted, join);
      room -= batch.of(kind).size();
    }
    left += queues_[index].size();
  }
  size_ = left;
  return batch;
}

bool OperationQueues::LeftLarge() const {
  return std::any_of(queues_.begin(), queues_.end(),
                     [](const auto& queue) { return queue.left_large(); });
}

std::size_t OperationQueues::SizeOf(Lane lane) const {
  const std::size_t relaxed = queues_[static_cast<std::size_t>(QueueKind::kReserveRelaxed)].size();
  return lane == Lane::kRelaxed ? relaxed : size_ - relaxed;
}

std::optional<QueueKind> OperationQueues::OnlyKind() const {
  for (std::size_t index = 0; index < kQueueKinds; ++index) {
    const std::size_t queued = queues_[index].size();
    if (queued == 0) continue;
    return queued == size_ ? std::optional(static_cast<QueueKind>(index)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace idempotency::internal
