#ifndef IDEMPOTENCY_SERVER_SERVICE_STACK_H_
#define IDEMPOTENCY_SERVER_SERVICE_STACK_H_

#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"

#include "grpc_idempotency/embedded/service_options.h"
#include "server/batcher.h"
#include "server/deferred_store.h"
#include "server/idempotency_service.h"
#include "server/in_flight_waiters.h"
#include "server/observer.h"
#include "server/store_address.h"
#include "server/store_factory.h"
#include "server/store_monitor.h"
#include "server/sweeper.h"

namespace idempotency::internal {

// The service and all that it stands on: store, sweeper, batcher, wait room.
// idempotencyd puts a port in front of it, an embedding program a channel
// inside its own process. Owns its parts, starts them in the order in which they
// stand below and stops them in the reverse order.
//
// Not thread-safe: one thread starts, uses and destroys it.
class ServiceStack {
 public:
  // Told of every look at the store.
  using OnInspected = StoreMonitor::OnInspected;

  // Looks at the store, and starts everything but the gRPC server. Also when the
  // store cannot be reached yet: calls are answered STORE_UNAVAILABLE until it
  // can. Otherwise the error of OpenStore() that somebody has to do something
  // about. `observer` must outlive it.
  static absl::StatusOr<std::unique_ptr<ServiceStack>> Start(const StoreAddress& address,
                                                             const ServiceOptions& options,
                                                             SchemaPolicy schema,
                                                             Observer& observer);
  // After the gRPC server that it was registered with has ended.
  ~ServiceStack() = default;
  ServiceStack(const ServiceStack&) = delete;
  ServiceStack& operator=(const ServiceStack&) = delete;

  // Puts the service on a server, with what belongs to it: how large messages
  // may be.
  void Register(grpc::ServerBuilder& builder);

  // Tells of the look that Start() took, on this thread, and then of every
  // later one, on the monitor's, until the monitor is destroyed. Once.
  std::unique_ptr<StoreMonitor> Watch(OnInspected on_inspected);

  // What to do before a server is drained: calls that wait for a running attempt
  // are told that it still runs, and nobody begins to wait from here on; sessions
  // are told to end when they have their answers.
  void StopWaiting();

  // Answers every call that has come in, refuses those to come with
  // STORE_UNAVAILABLE, ends the sweeper and closes the store: for an owner whose
  // gRPC server goes on. The monitor of Watch() must be gone.
  void Close();

 private:
  ServiceStack(const StoreAddress& address, const ServiceOptions& options, SchemaPolicy schema,
               Observer& observer);

  absl::StatusOr<std::unique_ptr<Store>> Open();
  void StartParts();

  const StoreAddress address_;
  const ServiceOptions options_;
  const SchemaPolicy schema_;
  Observer& observer_;

  // Of the opened store's pool. Touched only by whoever inspects the store:
  // the starting thread, then the monitor's.
  std::function<StoreConnections()> connections_;
  // Gone after Close(), when nobody calls it any more.
  std::optional<DeferredStore> store_;
  absl::StatusOr<StoreGauges> first_look_;
  std::optional<Sweeper> sweeper_;
  std::optional<Batcher> batcher_;
  std::optional<InFlightWaiters> waiters_;
  std::optional<IdempotencyService> service_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_STACK_H_
