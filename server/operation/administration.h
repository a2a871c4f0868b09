#ifndef IDEMPOTENCY_SERVER_OPERATION_ADMINISTRATION_H_
#define IDEMPOTENCY_SERVER_OPERATION_ADMINISTRATION_H_

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/access/access_control.h"
#include "server/observability/observer.h"
#include "server/operation/admin_request.h"
#include "server/queue/in_flight_waiters.h"
#include "server/store/admin_store.h"
#include "server/store/record_store.h"

namespace idempotency::internal {

// The parts of one call that Administration needs.
struct AdminCaller {
  // The caller's name if it may make this call in the namespace, or the refusal.
  std::function<absl::StatusOr<std::string>(std::string_view name_space)> authorize;
  // The caller no longer waits.
  std::function<bool()> gone;
  // Waits between two steps; false: end with what was done.
  std::function<bool(absl::Duration)> pause;
};

// The operations of administrators between the wire and the store: a request is checked, its
// caller authorised, the answer translated, and what was done reported. Blocks. Thread-safe.
class Administration {
 public:
  // All of them outlive it. `records` answers Get; `waiters` are of callers that wait for records.
  Administration(RecordStore& records, AdminStore& store, InFlightWaiters& waiters,
                 Observer& observer, const Clock& clock = Clock::System())
      : records_(records), store_(store), waiters_(waiters), observer_(observer), clock_(clock) {}

  const Clock& clock() const { return clock_; }

  // `why` refuses a call of `caller`, which names `name_space` (or none): reported if it refuses
  // the caller itself.
  void Refused(const absl::Status& why, Caller& caller, const std::string& name_space);

  // A record without its reply's content, whatever view the request names. `permitted` decides by
  // the whole key; a record id of what it refuses is NOT_FOUND, as one that does not exist. So is
  // one of a damaged record, unless the caller `reads_everywhere`.
  absl::StatusOr<v1::GetResponse> Get(
      const v1::GetRequest& request, const std::function<absl::Status(const RecordKey&)>& permitted,
      bool reads_everywhere);
  absl::StatusOr<v1::ListResponse> List(const v1::ListRequest& request, const AdminCaller& caller);
  absl::StatusOr<v1::ResolveResponse> Resolve(const v1::ResolveRequest& request,
                                              const AdminCaller& caller);
  absl::StatusOr<v1::PurgeResponse> Purge(const v1::PurgeRequest& request,
                                          const AdminCaller& caller);
  absl::StatusOr<v1::ResealResponse> Reseal(const v1::ResealRequest& request,
                                            const AdminCaller& caller);
  absl::StatusOr<v1::ListAuditResponse> ListAudit(const v1::ListAuditRequest& request,
                                                  const AdminCaller& caller);

 private:
  // A record that the caller may administer.
  struct Authorised {
    RecordKey key;
    std::string actor;
  };
  // NOT_FOUND for a record id of a namespace that the caller may not administer, in the words of
  // one that does not exist.
  absl::StatusOr<Authorised> Authorise(RecordTarget target, const AdminCaller& caller);
  absl::StatusOr<v1::PurgeResponse> PurgeSteps(const v1::PurgeRequest& request, PurgeOp op,
                                               const AdminCaller& caller);
  void Report(const PurgeOp& op, const PurgeStep& step);
  void Report(const ResealOp& op, const ResealStep& step);
  // Between two steps, the first of which began at `begun`: rests, and answers whether the call
  // goes on.
  bool MayContinue(std::chrono::steady_clock::time_point begun,
                   std::chrono::steady_clock::time_point end, const AdminCaller& caller);

  RecordStore& records_;
  AdminStore& store_;
  InFlightWaiters& waiters_;
  Observer& observer_;
  const Clock& clock_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_ADMINISTRATION_H_
