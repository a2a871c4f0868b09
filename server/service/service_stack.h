#ifndef IDEMPOTENCY_SERVER_SERVICE_SERVICE_STACK_H_
#define IDEMPOTENCY_SERVER_SERVICE_SERVICE_STACK_H_

#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"

#include "grpc_idempotency/embedded/service_options.h"
#include "server/access/access_control.h"
#include "server/observability/observer.h"
#include "server/operation/administration.h"
#include "server/operation/operations.h"
#include "server/queue/admin_worker.h"
#include "server/queue/batcher.h"
#include "server/queue/in_flight_waiters.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/idempotency_service.h"
#include "server/rpc/queued_methods.h"
#include "server/rpc/queued_services.h"
#include "server/sealing/sealing_options.h"
#include "server/service/deferred_store.h"
#include "server/service/key_ring_watch.h"
#include "server/service/store_address.h"
#include "server/service/store_factory.h"
#include "server/service/store_monitor.h"
#include "server/service/sweeper.h"
#include "server/service/unread_answer_watch.h"
#include "server/service/usage_meter.h"
#include "tracing/tracer.h"

namespace idempotency::internal {

// The service and its parts: store, sweeper, batcher, in-flight waiters.
// idempotencyd serves it on a port, an embedding program over a channel inside its own
// process. Owns its parts, starts them in the order below and stops them in the
// reverse order.
//
// Not thread-safe: one thread starts, uses and destroys it.
class ServiceStack {
 public:
  // Called after every inspection of the store.
  using OnInspected = StoreMonitor::OnInspected;

  // The parts and options of a service that others use.
  struct Sharing {
    // Outlives the stack. Null: every caller may do everything.
    const AccessControl* access = nullptr;
    // The same. Null: no namespace has limits.
    Tenants* tenants = nullptr;
    SealingOptions sealing;
    // Outlives the stack. Null: no spans.
    Tracer* tracer = nullptr;
  };

  // Reads the key ring, if there is one, inspects the store, and starts everything but the gRPC
  // server. Also when the store cannot be reached yet: calls are answered STORE_UNAVAILABLE until
  // it can. Fails with an error of OpenStore() or of KeyRingWatch::Start() that needs an operator.
  // `observer` outlives it.
  static absl::StatusOr<std::unique_ptr<ServiceStack>> Start(const StoreAddress& address,
                                                             const ServiceOptions& options,
                                                             SchemaPolicy schema,
                                                             Observer& observer,
                                                             const Sharing& sharing);
  // After the gRPC server that it was registered with has ended.
  ~ServiceStack();
  ServiceStack(const ServiceStack&) = delete;
  ServiceStack& operator=(const ServiceStack&) = delete;

  // Serves administrators too, by Sharing::access, which is set. Before Register(), once.
  void ServeAdmin();

  // The parts that serve administrators, for another entry point. After ServeAdmin().
  struct Admin {
    Administration& administration;
    AdminWorker& worker;
    MemoryBudget& budget;
  };
  Admin admin() { return {*administration_, *admin_worker_, batcher_->budget()}; }

  // The service's operations, for an entry point in this process.
  Operations& operations() { return service_->operations(); }

  // Registers the service on a server, and sets its message size limits.
  void Register(grpc::ServerBuilder& builder);
  // The same for a server that accepts the calls of `methods` on completion queues.
  void Register(grpc::ServerBuilder& builder, QueuedMethods& methods);

  // Reports Start()'s inspection, on this thread, and then every later one, on
  // the monitor's, until the monitor is destroyed. Call it once.
  std::unique_ptr<StoreMonitor> Watch(OnInspected on_inspected);

  // Call it before a server is drained: calls that wait for a running attempt are
  // answered that it still runs, and no call begins to wait from then on;
  // sessions are notified to end when they have their answers.
  void StopWaiting();

  // Answers every call that has arrived, refuses later ones with
  // STORE_UNAVAILABLE, ends the sweeper and closes the store: for an owner whose
  // gRPC server continues. The monitor of Watch() must be destroyed.
  void Close();

 private:
  ServiceStack(const StoreAddress& address, const ServiceOptions& options, SchemaPolicy schema,
               Observer& observer, const Sharing& sharing);

  absl::Status StartKeyRing();
  absl::StatusOr<std::unique_ptr<Store>> Open();
  void StartParts();

  const StoreAddress address_;
  const ServiceOptions options_;
  const SchemaPolicy schema_;
  Observer& observer_;
  const Sharing sharing_;

  // Null if nothing is sealed.
  std::unique_ptr<KeyRingWatch> key_ring_;
  // The connections of the opened store's pool. Used only by the thread that inspects the
  // store: the starting thread, then the monitor's.
  std::function<StoreConnections()> connections_;
  // Null after Close(), when no caller uses it any more.
  std::optional<DeferredStore> store_;
  absl::StatusOr<StoreGauges> first_look_;
  // Unless the store is only read.
  std::optional<Sweeper> sweeper_;
  // If namespaces have settings.
  std::optional<UsageMeter> usage_meter_;
  std::optional<Batcher> batcher_;
  std::optional<InFlightWaiters> waiters_;
  std::optional<IdempotencyService> service_;
  std::optional<UnreadAnswerWatch> unread_answer_watch_;
  // If administrators are served.
  std::optional<Administration> administration_;
  std::optional<AdminWorker> admin_worker_;
  std::optional<IdempotencyAdminService> admin_service_;
  // If they are registered so.
  std::optional<QueuedIdempotencyService> queued_service_;
  std::optional<QueuedAdminService> queued_admin_service_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_SERVICE_STACK_H_
