#ifndef IDEMPOTENCY_SERVER_PROCESS_FURTHER_SERVICE_H_
#define IDEMPOTENCY_SERVER_PROCESS_FURTHER_SERVICE_H_

#include <grpcpp/server_builder.h>
#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/access/access_control.h"
#include "server/config/config_file.h"
#include "server/observability/observer.h"
#include "server/operation/operations.h"
#include "server/rpc/queued_methods.h"

namespace idempotency::internal {

// A gRPC service that the program adds to the daemon, on a listener of its own: one that stands
// above the parts that the daemon knows. The daemon starts and stops it with the others.
class FurtherService {
 public:
  // After its server has ended. Waits for its outstanding operations, which still work.
  virtual ~FurtherService() = default;

  // Its full name, which its health has at its port.
  virtual std::string service_name() const = 0;
  // Its methods are called once the server is started.
  virtual void Register(grpc::ServerBuilder& builder, QueuedMethods& methods) = 0;
  // Applies a changed configuration. An error changes nothing, and neither does the rest of the
  // configuration apply then. Thread-safe.
  virtual absl::Status Configure(const LoadedConfig& config) = 0;
  // Its server is about to be drained: new work is refused.
  virtual void Close() = 0;
};

// The parts of the process that a further service uses. They outlive the service.
struct FurtherServiceParts {
  const LoadedConfig& config;
  // Other machines reach its address.
  bool exposed = false;
  // The streams in progress that its listener admits of one address.
  int streams_of_address = 0;
  Operations& operations;
  const AccessControl& access;
  Observer& observer;
  prometheus::Registry& registry;
};

// How the program makes and checks a further service. A value type.
struct FurtherServiceKind {
  // Makes it; an error names what to do. Empty: this program has none.
  std::function<absl::StatusOr<std::unique_ptr<FurtherService>>(const FurtherServiceParts&)> make;
  // The faults of a configuration for it. It also applies to a daemon that does not serve it: one
  // file is for all replicas. UNIMPLEMENTED if this program cannot find them. Empty: none.
  std::function<absl::Status(const LoadedConfig&)> check;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_FURTHER_SERVICE_H_
