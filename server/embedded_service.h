#ifndef IDEMPOTENCY_SERVER_EMBEDDED_SERVICE_H_
#define IDEMPOTENCY_SERVER_EMBEDDED_SERVICE_H_

#include <grpcpp/channel.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/mutex.h"
#include "server/observer.h"
#include "server/service_options.h"
#include "server/service_stack.h"
#include "server/store_monitor.h"

namespace idempotency {

// The options of idempotencyd that mean something inside another program, with
// its defaults, and two more.
struct EmbeddedOptions : ServiceOptions {
  // Bring a Postgres schema to the version of this build, as `idempotencyd
  // migrate` would. Otherwise it must have that version already. A SQLite file
  // is always brought up to date.
  bool migrate = false;
  // Told what happens, for metrics and logs: idempotency::Metrics
  // (server/metrics.h), or one of the program's own. Must outlive the service.
  Observer* observer = nullptr;
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
//   guard.reset();    // waits for recordings that are still under way,
//   service.reset();  // which this would cut off
//
// Several guards and any other client may share one channel. A SQLite file
// belongs to one process at a time; a Postgres schema may be shared with any
// number of processes, embedded or not.
//
// channel() and store_status() are thread-safe. One thread opens and destroys.
class EmbeddedService {
 public:
  // `store` as for `idempotencyd serve --store`: sqlite:PATH, or a postgresql://
  // URI. Errors say what to do and hold no part of a URI:
  //   INVALID_ARGUMENT     the address, or an option that it names
  //   FAILED_PRECONDITION  the file cannot be used, or is in use by another
  //                        process; the Postgres schema is not that of this
  //                        build
  // Like the daemon, it opens while Postgres cannot be reached: calls are
  // answered STORE_UNAVAILABLE, so guarded methods do not run, until it can.
  static absl::StatusOr<std::unique_ptr<EmbeddedService>> Open(
      const std::string& store, const EmbeddedOptions& options = EmbeddedOptions());

  // Answers whoever waits for a running attempt with IN_FLIGHT, takes no new
  // calls, lets running ones finish (up to the drain timeout), then ends the
  // sweeper and closes the store. Calls over the channel fail with UNAVAILABLE
  // from then on.
  ~EmbeddedService();
  EmbeddedService(const EmbeddedService&) = delete;
  EmbeddedService& operator=(const EmbeddedService&) = delete;

  // To the service, for ServerGuard::Create and v1::IdempotencyService::NewStub.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // What the store said when it was last looked at, at most a second ago: OK, or
  // why calls fail. For a health check.
  absl::Status store_status() const;

 private:
  explicit EmbeddedService(const EmbeddedOptions& options);

  absl::Status StartParts(const StoreAddress& store);

  const EmbeddedOptions options_;
  Observer nobody_;

  mutable Mutex mutex_;
  absl::Status store_status_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<ServiceStack> stack_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<StoreMonitor> monitor_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_EMBEDDED_SERVICE_H_
