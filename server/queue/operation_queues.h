#ifndef IDEMPOTENCY_SERVER_QUEUE_OPERATION_QUEUES_H_
#define IDEMPOTENCY_SERVER_QUEUE_OPERATION_QUEUES_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "grpc_idempotency/deadline.h"
#include "server/queue/fair_queue.h"
#include "server/queue/memory_budget.h"
#include "server/queue/queued_operation.h"

namespace idempotency::internal {

// Relaxed reservations wait for no commit, so they are gathered among themselves, and the others
// among themselves.
enum class Lane { kDurable, kRelaxed };

// The queued operations: which of them are admitted, and which leave next.
//
// Order. Completions leave first, then releases, extensions, reservations and reads. Within a
// kind, namespaces take turns, and a batch has at most one operation of a record (FairQueue), but
// for reads: those by id have turns of their own.
//
// Shares. Every kind but completions has a part of every batch (kShare, kSmallShare), so that no
// number of operations in front delays them: nobody checks before the store whether a completion
// or an extension has a reservation. The last places of a full queue are for namespaces that have
// less than their share of it. MemoryBudget has the shares of the bytes.
//
// Bytes. A batch has kMaxBatchBytes of each kind, and one operation that is too large for the rest
// of them. Only completions have so many: the operations of any other kind that a batch has
// places for are smaller together. So no reply is long at the store in front of other operations.
//
// Followers. A reservation that queues behind one of the same record, for the same request, leaves
// with it (QueuedOperation::followers).
//
// Not thread-safe.
class OperationQueues {
 public:
  // Each part of a batch, as 1 / kShare, that operations in front leave to a kind behind them, as
  // far as operations wait there: reads, relaxed reservations, and the operations of in-flight
  // waiters, together half of a batch.
  static constexpr std::size_t kShare = 8;
  // The same for releases, extensions and reservations: together three sixteenths.
  static constexpr std::size_t kSmallShare = 16;
  // The bytes of one kind in a batch: as many as the stores send at once.
  static constexpr std::size_t kMaxBatchBytes = 4 * 1024 * 1024;

  // `max_queued` as BatcherOptions has it; `max_batch` operations leave at once. `budget` must
  // outlive this.
  OperationQueues(std::size_t max_queued, std::size_t max_batch, MemoryBudget& budget)
      : max_queued_(max_queued), max_batch_(max_batch), budget_(budget) {}

  // OK if this one may be queued as well: it then has its part of the budget. Otherwise OVERLOADED.
  absl::Status Admit(QueuedOperation& queued);
  // Queues an admitted operation.
  void Push(QueuedPtr queued);
  // Operations that have left return to their places: in front of later ones of their records, or
  // those could overtake them each time while the store fails. Also if there is no room: they were
  // admitted before.
  void PutBack(std::vector<QueuedPtr> operations);

  struct Lanes {
    bool durable = true;
    bool relaxed = true;
  };
  // The next batch, of these lanes.
  //
  // Operations whose deadline has passed by `now`, or whose caller has left, go into `unwanted`
  // instead, and take no place of a record or a namespace. The others remain: more than a batch
  // may hold, and second operations of a record, which in another worker's batch would wait for
  // the first one's row, and delay all of that batch.
  OperationBatch Take(const Lanes& lanes, SteadyTime now, std::vector<QueuedPtr>& unwanted);

  // Whether operations stay because they were too large for the last batch of their kind.
  bool LeftLarge() const;

  std::size_t size() const { return size_; }
  std::size_t SizeOf(Lane lane) const;
  // If all operations are of one kind; otherwise, or if there is none, nullopt.
  std::optional<QueueKind> OnlyKind() const;

 private:
  FairQueue<QueuedPtr>& QueueOf(QueueKind kind) { return queues_[static_cast<std::size_t>(kind)]; }
  bool HasPlaceFor(const QueuedOperation& queued) const;
  // Whether the namespace has as many operations here as an equal share would give it, among
  // those that have some and `others` more.
  bool HasItsShare(std::string_view name_space, std::size_t others) const;
  // The part of a batch that the kinds behind `queue` have.
  std::size_t PromisedBehind(std::size_t queue) const;

  const std::size_t max_queued_;
  const std::size_t max_batch_;
  MemoryBudget& budget_;
  std::array<FairQueue<QueuedPtr>, kQueueKinds> queues_;
  std::size_t size_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_OPERATION_QUEUES_H_
