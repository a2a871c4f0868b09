#ifndef IDEMPOTENCY_TESTS_INTEGRATION_MEMORY_SERVICE_H_
#define IDEMPOTENCY_TESTS_INTEGRATION_MEMORY_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/limits.h"
#include "server/access/access_control.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/rpc/idempotency_service.h"
#include "server/store/memory/memory_store.h"
#include "server/testing/counting_observer.h"
#include "server/testing/gated_store.h"

namespace idempotency::internal::testing {

// The real service inside this process, over the memory store, on clocks that
// stand still until the test moves them. Thread-safe once made.
class MemoryService {
 public:
  // Over `max_queued` operations it is overloaded. `access` and `tenants`, if set,
  // outlive it.
  explicit MemoryService(std::size_t max_queued = limits::kMaxQueuedOperations,
                         const AccessControl* access = nullptr, Tenants* tenants = nullptr);
  ~MemoryService();

  // A connection to the service; every call makes another one. Destroy it before the service.
  std::shared_ptr<grpc::Channel> channel();

  // The time for leases, windows and retentions.
  ManualClock& store_clock() { return store_clock_; }
  // The same store that the service uses, without the effects of `gate`.
  Store& store() { return memory_; }
  GatedStore& gate() { return gate_; }
  CountingObserver& observer() { return observer_; }

  // This record was changed in the store, not by the service.
  void OnRecordChanged(const RecordId& id) { waiters_.OnRecordChanged(id); }
  // The waiters for this record have waited for long enough.
  void EndWaitsFor(const RecordId& id);

 private:
  static InFlightWaitersOptions On(const Clock& clock);
  static IdempotencyServiceOptions ServiceOn(const Clock& clock, const AccessControl* access,
                                             Tenants* tenants);

  ManualClock clock_;
  ManualClock store_clock_;
  MemoryStore memory_{store_clock_};
  GatedStore gate_{memory_};
  CountingObserver observer_;
  Batcher batcher_;
  InFlightWaiters waiters_{batcher_, observer_, On(clock_)};
  IdempotencyService service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_INTEGRATION_MEMORY_SERVICE_H_
