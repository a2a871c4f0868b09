#ifndef IDEMPOTENCY_SERVER_QUEUE_QUEUED_OPERATION_H_
#define IDEMPOTENCY_SERVER_QUEUE_QUEUED_OPERATION_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/uuid.h"
#include "server/observability/operation_kind.h"
#include "server/queue/memory_budget.h"
#include "server/queue/operation_weight.h"
#include "server/queue/store_method.h"
#include "tracing/tracer.h"

namespace idempotency::internal {

// Where operations queue, and which of them go to the store in one call: in the
// order in which they leave.
enum class QueueKind {
  kComplete,
  kRelease,
  kExtend,
  kReserve,
  // Reservations that wait for no commit (ReserveOp::relaxed): apart, so that no commit delays
  // them.
  kReserveRelaxed,
  kReserveForWaiter,
  kGetForWaiter,
  kGet,
};
inline constexpr std::size_t kQueueKinds = 8;

constexpr OperationKind KindOf(QueueKind queue) {
  switch (queue) {
    case QueueKind::kComplete:
      return OperationKind::kComplete;
    case QueueKind::kRelease:
      return OperationKind::kRelease;
    case QueueKind::kExtend:
      return OperationKind::kExtend;
    case QueueKind::kReserve:
    case QueueKind::kReserveRelaxed:
    case QueueKind::kReserveForWaiter:
      return OperationKind::kReserve;
    case QueueKind::kGetForWaiter:
    case QueueKind::kGet:
      break;
  }
  return OperationKind::kGet;
}

// The caller of a reservation. Must exist until the reservation is answered.
class ReserveCaller {
 public:
  // Whether it left, for good: a queued reservation of it does not go to the store, where it
  // would take the record for nobody. A caller that repeats the call elsewhere may have its
  // answer already, and a grant that follows the answer holds the record until its lease ends.
  // Called on any thread; must not block.
  virtual bool HasLeft() const = 0;

 protected:
  ~ReserveCaller() = default;
};

struct QueuedOperation;
using QueuedPtr = std::unique_ptr<QueuedOperation>;

// An operation between its arrival and its answer, of any kind. Not thread-safe.
struct QueuedOperation {
  QueuedOperation(QueueKind its_queue, const RecordId& record, std::size_t weight, SteadyTime until)
      : queue(its_queue), id(record), bytes(weight), deadline(until) {}
  virtual ~QueuedOperation() = default;

  virtual std::string_view name_space() const = 0;
  // The answer without the store.
  virtual void Refuse(const absl::Status& status) = 0;

  OperationKind kind() const { return KindOf(queue); }
  bool CallerHasLeft() const { return caller != nullptr && caller->HasLeft(); }
  // Whether it must not go to the store any more.
  bool IsUnwanted(SteadyTime now) const { return deadline <= now || CallerHasLeft(); }

  const QueueKind queue;
  const RecordId id;
  // Its part of the memory budget, which it holds from when it is admitted.
  const std::size_t bytes;
  MemoryBudget::Hold hold;
  const SteadyTime deadline;
  // The caller of a reservation, if it may leave; otherwise nullptr.
  const ReserveCaller* caller = nullptr;
  // The span of a sampled operation.
  std::optional<TraceContext> trace;
  // Reservations of the same record for the same request, which arrived later and go to the store
  // with this one.
  std::vector<QueuedPtr> followers;
};

// With the operation for the store, and the receiver of its answer.
template <typename Op>
struct QueuedFor final : QueuedOperation {
  using Method = StoreMethod<Op>;

  QueuedFor(QueueKind its_queue, Op&& operation, SteadyTime until, typename Method::Done receiver)
      : QueuedOperation(its_queue, operation.id, WeightOf(operation), until),
        op(std::move(operation)),
        done(std::move(receiver)) {}

  // The queued operation, which must be of this kind.
  static QueuedFor& Of(QueuedOperation& queued) {
    if (queued.kind() != Method::kKind) std::abort();
    return static_cast<QueuedFor&>(queued);
  }

  std::string_view name_space() const override { return Method::NamespaceOf(op); }
  void Refuse(const absl::Status& status) override { Answer(status); }
  void Answer(typename Method::Answer answer) {
    Method::Deliver(done, std::move(answer), std::move(op));
  }

  Op op;
  const typename Method::Done done;
};

// The operations that a worker takes at once.
class OperationBatch {
 public:
  std::vector<QueuedPtr>& of(QueueKind queue) {
    return operations_[static_cast<std::size_t>(queue)];
  }

  // How many queues they are of.
  std::size_t queues() const {
    return std::count_if(operations_.begin(), operations_.end(),
                         [](const auto& operations) { return !operations.empty(); });
  }

 private:
  std::array<std::vector<QueuedPtr>, kQueueKinds> operations_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_QUEUED_OPERATION_H_
