#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_LEDGER_LOOKUP_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_LEDGER_LOOKUP_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"

#include "core/backoff.h"
#include "core/mutex.h"
#include "core/pass_key.h"
#include "interceptors/server/execution/live_execution.h"

namespace idempotency::internal {

// One lookup in the application's completion ledger: whether any attempt of this operation has
// committed. Runs on the guard's ledger threads, and is repeated while the ledger cannot be
// reached. Thread-safe; keeps itself alive until it has answered.
class LedgerLookup final : public std::enable_shared_from_this<LedgerLookup> {
 public:
  using Time = Scheduler::Time;
  //   a reply            the operation is done, and this is its reply
  //   nullopt            it is not committed
  //   STORE_UNAVAILABLE  the ledger was not reached by the deadline, or before the reservation
  //                      was lost or the guard stopped; or there is a deadline and too many
  //                      lookups wait
  //   any other error    the row does not answer this request: KEY_REUSED (it belongs to an
  //                      earlier record of the key), FINGERPRINT_UNKNOWN, RECORD_DAMAGED,
  //                      RECORD_ID_COLLISION
  using Answer = absl::StatusOr<std::optional<v1::Reply>>;
  // Called once, on any thread, possibly inside Run; must not block.
  using Done = std::function<void(Answer)>;

  // The execution's operation has a ledger. Time::max() is no deadline.
  static void Run(const std::shared_ptr<LiveExecution>& execution, Time deadline, Done done);
  // The same without a reservation. `operation` has a ledger.
  static void Run(std::shared_ptr<const GuardedOperation> operation,
                  std::shared_ptr<const v1::ReserveRequest> reserve_request, Time deadline,
                  Done done);

  // For Run() alone. `execution` may be nullptr.
  LedgerLookup(PassKey<LedgerLookup> key, std::shared_ptr<const GuardedOperation> operation,
               std::shared_ptr<const v1::ReserveRequest> reserve_request,
               std::shared_ptr<LiveExecution> execution, Time deadline, Done done);

 private:
  void Start();
  void Try();
  // Its caller has an answer already, for example at its deadline.
  bool Answered();
  void OnAnswer(Answer answer);
  // False if this answer is the last one: true if there is a further try, or its caller has an
  // answer already.
  bool TryAgain();
  void Finish(Answer answer);

  const std::shared_ptr<const GuardedOperation> operation_;
  const std::shared_ptr<const v1::ReserveRequest> reserve_request_;
  // nullptr without a reservation.
  const std::shared_ptr<LiveExecution> execution_;
  const Time deadline_;

  Mutex mutex_;
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  Scheduler::TaskId timer_ ABSL_GUARDED_BY(mutex_) = 0;
  // Empty once it was called.
  Done done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_EXECUTION_LEDGER_LOOKUP_H_
