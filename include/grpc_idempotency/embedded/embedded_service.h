#ifndef GRPC_IDEMPOTENCY_EMBEDDED_EMBEDDED_SERVICE_H_
#define GRPC_IDEMPOTENCY_EMBEDDED_EMBEDDED_SERVICE_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/embedded/service_options.h"

namespace idempotency {

class ServiceMetrics;

// The options of idempotencyd that apply inside another program, with the same defaults, and
// three more.
struct EmbeddedOptions : ServiceOptions {
  // True: migrate a Postgres schema to the version of this build, as `idempotencyd migrate`
  // does. False: the schema must have that version already. A SQLite file is always migrated.
  // Without effect on a Redis.
  bool migrate = false;
  // True: open a Redis that is empty or has lost records, as `idempotencyd serve
  // --accept_empty_store` does. Operations whose records are lost then run again. It is for the one
  // open that prepares a new Redis, where `idempotencyd migrate` is not at hand: a service that
  // always sets it does not notice a loss. Refused for other stores.
  bool accept_empty = false;
  // Receives the service's counts (grpc_idempotency/embedded/service_metrics.h). nullptr: nothing
  // is counted. Must outlive the service and its channel.
  ServiceMetrics* metrics = nullptr;
};

// idempotencyd without a second process: the same service, batcher, sweeper and stores inside
// this process. It opens no port. A guard gets a connection; other clients use channel().
//
//   auto service = EmbeddedService::Open("sqlite:/var/lib/app/records.db").value();
//   auto guard = ServerGuard::Create(service->MakeConnection(), options).value();
//   ...
//   guard->Close();
//   server->Shutdown();
//   server.reset();
//   guard.reset();    // waits for outstanding recordings,
//   service.reset();  // which are impossible after this
//
// Several guards and other clients may share the service. A SQLite file belongs to one service
// of one process at a time. Any number of processes, embedded or not, may share a Postgres
// schema.
//
// MakeConnection(), channel() and store_status() are thread-safe. One thread opens and destroys the
// service.
class EmbeddedService {
 public:
  // `store` as for `idempotencyd serve --store`: sqlite:PATH, a postgresql:// URI or a redis://
  // URL. Error messages name the remedy, and contain no part of a URI:
  //   INVALID_ARGUMENT     the address is invalid, or the option that the message names
  //   FAILED_PRECONDITION  the file cannot be used, or another service uses it; or the Postgres
  //                        schema does not have the version of this build, or the Redis is empty
  //                        or has lost records (accept_empty)
  // Like the daemon, it opens while Postgres or Redis cannot be reached. Until it can be reached,
  // calls get STORE_UNAVAILABLE, so guarded methods do not run.
  static absl::StatusOr<std::unique_ptr<EmbeddedService>> Open(
      const std::string& store, const EmbeddedOptions& options = EmbeddedOptions());

  // Answers calls that wait for a running attempt with IN_FLIGHT, answers every other call that
  // has arrived, then stops the sweeper and closes the store. Bounded by the store's own
  // timeouts.
  //
  // Connections and the channel may outlive the service: calls then fail with STORE_UNAVAILABLE.
  // The gRPC objects behind the channel are destroyed with its last owner, on that owner's thread,
  // which must not be one of gRPC's.
  ~EmbeddedService();
  EmbeddedService(const EmbeddedService&) = delete;
  EmbeddedService& operator=(const EmbeddedService&) = delete;

  // A connection for ServerGuard::Create. Its calls are operations of the service, on the calling
  // thread: nothing is serialised, and no thread of gRPC's takes part. Callbacks run on the
  // service's threads, one after the other for the operations of a batch.
  std::unique_ptr<Connection> MakeConnection() const;

  // The channel to the service, for v1::IdempotencyService::NewStub. A guard may use it too, at
  // the price of messages and of gRPC's threads.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // The store's status at its last check, which is made every second: OK, or the reason why
  // calls fail. For a health check.
  absl::Status store_status() const;

 private:
  // The gRPC server and its components.
  class Backend;

  explicit EmbeddedService(std::shared_ptr<Backend> backend);

  std::shared_ptr<Backend> backend_;
  // Owns the backend too: gRPC 1.51 crashes when a call is made over an in-process channel
  // whose server is shutting down or destroyed.
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_EMBEDDED_EMBEDDED_SERVICE_H_
