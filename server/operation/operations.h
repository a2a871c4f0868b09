#ifndef IDEMPOTENCY_SERVER_OPERATION_OPERATIONS_H_
#define IDEMPOTENCY_SERVER_OPERATION_OPERATIONS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "grpc_idempotency/limits.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/access/permission.h"
#include "server/observability/observer.h"
#include "server/operation/pending_operation.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/queue/memory_budget.h"
#include "server/tenants/tenants.h"
#include "tracing/tracer.h"

namespace idempotency::internal {

struct OperationsOptions {
  // How old an unknown UUIDv7 key may be.
  absl::Duration window = limits::kDefaultWindow;
  // The bounds of InFlight.retry_after, which is otherwise the remaining lease
  // of the running attempt: most attempts end long before it, and no caller
  // should retry more often than the first.
  absl::Duration min_retry_after = absl::Milliseconds(100);
  absl::Duration max_retry_after = absl::Seconds(1);
  // The store may answer reservations before they are durable, where their callers request it.
  bool relaxed_reservations = false;
  const Clock* clock = &Clock::System();
  // Outlives the operations. nullptr: no namespace has settings of its own.
  Tenants* tenants = nullptr;
  // The same. nullptr: no spans are made.
  Tracer* tracer = nullptr;
};

// The five operations of the service between the wire and the batcher, the same
// for every entry point: a request is checked and translated, the answer is
// translated back, counted and reported. Thread-safe.
class Operations {
 public:
  // All of them must outlive every pending operation.
  Operations(Batcher& batcher, InFlightWaiters& waiters, Observer& observer,
             const OperationsOptions& options = {});

  // Each calls `pending` when it is over, which may be before it returns: a
  // request that is not valid is refused at once. The request is not needed
  // afterwards. With a group, the store is called when that is submitted.
  void Reserve(const v1::ReserveRequest& request, PendingResponse<v1::ReserveResponse>& pending,
               Batcher::Group* group = nullptr);
  void Complete(const v1::CompleteRequest& request, PendingResponse<v1::CompleteResponse>& pending,
                Batcher::Group* group = nullptr);
  void Release(const v1::ReleaseRequest& request, PendingResponse<v1::ReleaseResponse>& pending,
               Batcher::Group* group = nullptr);
  void Extend(const v1::ExtendRequest& request, PendingResponse<v1::ExtendResponse>& pending,
              Batcher::Group* group = nullptr);
  void Get(const v1::GetRequest& request, PendingResponse<v1::GetResponse>& pending,
           Batcher::Group* group = nullptr);

  // Begins the span of an operation whose caller sent this `traceparent`, if its trace is sampled
  // and spans are exported. In a session a guard sends the traceparent as a label of the
  // reservation: a reservation without a span uses that.
  void StartSpan(std::string_view traceparent, PendingOperation& pending) const;

  // Refuses an operation for a reason of its entry point.
  void Refuse(PendingOperation& pending, const absl::Status& status);

  // The store is called for the operations of a group, which is empty afterwards.
  void Submit(Batcher::Group& group) { batcher_.Submit(group); }

  // Of an operation that waits, by PendingOperation::waiting(); nullptr has no effect. Its caller
  // no longer needs an answer, or still accepts one (InFlightWaiters).
  void Cancel(const InFlightWaiters::WaiterPtr& waiting) {
    if (waiting != nullptr) waiters_.Cancel(waiting);
  }
  void StopWaiting(const InFlightWaiters::WaiterPtr& waiting) {
    if (waiting != nullptr) waiters_.StopWaiting(waiting);
  }

  MemoryBudget& budget() { return batcher_.budget(); }
  Observer& observer() { return observer_; }
  const Clock& clock() const { return *options_.clock; }

 private:
  absl::Status Check(const PendingOperation& pending, const RecordKey& key, Permission permission);
  // A read by record id does not name its namespace: Write() checks the permission.
  absl::Status CheckRead(const PendingOperation& pending, const GetOp& op, v1::RecordView view);
  // With tenants. A read by record id counts for a namespace that its caller may read.
  absl::StatusOr<Tenants::Place> AdmitRead(const PendingOperation& pending, const GetOp& op,
                                           v1::RecordView view);
  // Reports a refusal, and returns it.
  absl::Status Observed(absl::Status checked, Caller& caller, const std::string& name_space);
  static bool ReadsEverywhere(const PendingOperation& pending, v1::RecordView view);
  void Finish(PendingOperation& pending, const absl::Status& status);
  // The limit of the namespace in place of the store's refusal of a new record.
  absl::Status WithLimit(const absl::Status& error,
                         const PendingResponse<v1::ReserveResponse>& pending) const;
  absl::Status Write(const absl::StatusOr<Verdict>& answer,
                     PendingResponse<v1::ReserveResponse>& pending);
  absl::Status Write(const absl::StatusOr<Record>& answer, v1::RecordView view,
                     PendingResponse<v1::GetResponse>& pending);
  // Room for a reply in a response; OVERLOADED where unread answers fill it.
  absl::Status HoldReply(const EncodedReply& reply, std::string_view name_space,
                         PendingOperation& pending);

  Batcher& batcher_;
  InFlightWaiters& waiters_;
  Observer& observer_;
  const OperationsOptions options_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_OPERATIONS_H_
