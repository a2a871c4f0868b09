#ifndef GRPC_IDEMPOTENCY_EMBEDDED_EMBEDDED_SERVICE_H_
#define GRPC_IDEMPOTENCY_EMBEDDED_EMBEDDED_SERVICE_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "grpc_idempotency/embedded/service_options.h"

namespace idempotency {

namespace internal {
class Observer;
}  // namespace internal

// The options of idempotencyd that mean something inside another program, with
// its defaults, and two more.
struct EmbeddedOptions : ServiceOptions {
  // Bring a Postgres schema to the version of this build, as `idempotencyd
  // migrate` would. Otherwise it must have that version already. A SQLite file
  // is always brought up to date.
  bool migrate = false;
  // Counts what the service does: ServiceMetrics::observer()
  // (grpc_idempotency/embedded/service_metrics.h). nullptr: nothing is counted. Outlives the
  // service and its channel.
  internal::Observer* observer = nullptr;
};

// idempotencyd without a second process: the same service, batcher, sweeper and
// stores inside this one. No port is opened; channel() leads to it.
//
//   auto service = EmbeddedService::Open("sqlite:/var/lib/app/records.db").value();
//   auto guard = ServerGuard::Create(service->channel(), options).value();
//   ...
//   guard->Close();
//   server->Shutdown();
//   server.reset();
//   guard.reset();    // waits for the recordings that are still under way,
//   service.reset();  // which could not be made after this
//
// Several guards and any other client may share the channel. A SQLite file
// belongs to one service of one process at a time; a Postgres schema may be
// shared with any number of processes, embedded or not.
//
// channel() and store_status() are thread-safe. One thread opens and destroys.
class EmbeddedService {
 public:
  // `store` as for `idempotencyd serve --store`: sqlite:PATH, or a postgresql://
  // URI. Errors say what to do and hold no part of a URI:
  //   INVALID_ARGUMENT     the address, or an option that it names
  //   FAILED_PRECONDITION  the file cannot be used, or is in use by another
  //                        service; the Postgres schema is not that of this
  //                        build
  // Like the daemon, it opens while Postgres cannot be reached: calls are
  // answered STORE_UNAVAILABLE, so guarded methods do not run, until it can.
  static absl::StatusOr<std::unique_ptr<EmbeddedService>> Open(
      const std::string& store, const EmbeddedOptions& options = EmbeddedOptions());

  // Tells whoever waits for a running attempt that it still runs (IN_FLIGHT),
  // answers every other call that has come in, then ends the sweeper and closes
  // the store. Bounded by the store's own timeouts.
  //
  // A channel may outlive it: calls then fail with STORE_UNAVAILABLE. What
  // gRPC needs for that ends with the last of its owners, on that one's thread,
  // which must not be one of gRPC's.
  ~EmbeddedService();
  EmbeddedService(const EmbeddedService&) = delete;
  EmbeddedService& operator=(const EmbeddedService&) = delete;

  // To the service, for ServerGuard::Create and v1::IdempotencyService::NewStub.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // What the store said when it was last looked at, which is done every second:
  // OK, or why calls fail. For a health check.
  absl::Status store_status() const;

 private:
  // The gRPC server, and all that stands behind it.
  class Backend;

  explicit EmbeddedService(std::shared_ptr<Backend> backend);

  std::shared_ptr<Backend> backend_;
  // An owner of the backend: gRPC 1.51 crashes when a call is made over an
  // in-process channel whose server is shutting down or gone.
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_EMBEDDED_EMBEDDED_SERVICE_H_
