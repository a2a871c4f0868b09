#ifndef IDEMPOTENCY_SERVER_OPERATION_PENDING_OPERATION_H_
#define IDEMPOTENCY_SERVER_OPERATION_PENDING_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "grpc_idempotency/uuid.h"
#include "server/access/access_control.h"
#include "server/observability/operation_kind.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/queue/memory_budget.h"
#include "server/tenants/tenants.h"
#include "tracing/tracer.h"

namespace idempotency::internal {

// One operation whose caller waits: a call of a unary method, or an operation of
// a session. Its creator keeps it until Finish(). Thread-compatible: Operations
// uses it from one thread at a time.
class PendingOperation {
 public:
  // `arrived` is the arrival of the request, from which its deadline and its
  // latency count.
  PendingOperation(OperationKind kind, Batcher::Deadline arrived, Batcher::Deadline deadline)
      : kind_(kind), arrived_(arrived), deadline_(deadline) {}
  virtual ~PendingOperation() = default;
  PendingOperation(const PendingOperation&) = delete;
  PendingOperation& operator=(const PendingOperation&) = delete;

  OperationKind kind() const { return kind_; }
  // The waiter of a reservation, once Operations::Reserve() has returned; nullptr for
  // other operations and if it was refused.
  const InFlightWaiters::WaiterPtr& waiting() const { return waiting_; }

  // The request's part of the memory budget. Operations returns it when the
  // request was translated: the result is counted with the operation.
  void HoldRequest(MemoryBudget::Hold hold) { request_hold_ = std::move(hold); }

  // The span of a sampled trace that this operation belongs to: see Operations::StartSpan().
  bool has_span() const { return span_ != nullptr; }

  // The caller, which outlives this. Without one everything is permitted.
  void SetCaller(Caller* caller) { caller_ = caller; }

 protected:
  // The size of the response, from right before Finish(): the owner of the response
  // keeps this until it was written. Empty for a response without a reply.
  MemoryBudget::Hold TakeHold() { return std::move(hold_); }

 private:
  friend class Operations;

  // The place of its span in the trace, for the store's span; nullopt without a span.
  std::optional<TraceContext> trace() const {
    if (span_ == nullptr) return std::nullopt;
    return TraceContext{span_->parent.trace_id, span_->id, true};
  }

  // The operation is over; when `status` is OK, the response was filled in. Called
  // exactly once, within a AnswerBatchScope; this may be destroyed afterwards.
  virtual void Finish(const absl::Status& status) = 0;

  const OperationKind kind_;
  const Batcher::Deadline arrived_;
  const Batcher::Deadline deadline_;
  RecordId id_;
  // The reply of a completion, where namespaces have quotas.
  struct StoredReply {
    std::string name_space;
    std::size_t bytes = 0;
  };
  StoredReply reply_;
  // The replay size that the caller of a reservation accepts.
  std::uint64_t max_reply_bytes_ = 0;
  InFlightWaiters::WaiterPtr waiting_;
  Caller* caller_ = nullptr;
  // Null unless the trace is sampled and spans are exported.
  std::unique_ptr<Span> span_;
  // Among the operations of its namespace, until it is over.
  Tenants::Place place_;
  MemoryBudget::Hold request_hold_;
  MemoryBudget::Hold hold_;
};

// One that is answered with a `Response`.
template <typename Response>
class PendingResponse : public PendingOperation {
 public:
  using PendingOperation::PendingOperation;

 private:
  friend class Operations;

  // The response to fill, in its default state. Called at most once, right
  // before Finish() and on its thread.
  virtual Response& response() = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_PENDING_OPERATION_H_
