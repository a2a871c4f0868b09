#ifndef IDEMPOTENCY_SERVER_PROCESS_GRPC_LISTENER_H_
#define IDEMPOTENCY_SERVER_PROCESS_GRPC_LISTENER_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/observability/observer.h"
#include "server/process/connection_acceptor.h"
#include "server/process/health_service.h"
#include "server/process/listener_options.h"
#include "server/process/listening_sockets.h"
#include "server/process/network_address.h"
#include "server/process/port_probe.h"
#include "server/process/reflection_service.h"
#include "server/process/stream_watch.h"
#include "server/rpc/call_queues.h"
#include "server/rpc/call_table.h"
#include "server/rpc/queued_methods.h"
#include "server/rpc/unserved_methods.h"

namespace idempotency::internal {

// The gRPC server: services with reflection and health, on
// one address. Connections are accepted here and passed to gRPC, so that they are
// bounded, and a burst of them does not stop the listening
// (docs/adr/0024-own-acceptor.md). Destruction shuts it down at once.
class GrpcListener {
 public:
  // Called on one of its threads, with the reason, when clients can no longer
  // connect.
  using OnDeaf = std::function<void(const absl::Status&)>;

  // Registers the services, which outlive the listener, and adds those of their methods that are
  // served on its queues.
  using AddServices = std::function<void(grpc::ServerBuilder&, QueuedMethods&)>;

  // FAILED_PRECONDITION if it cannot listen there. `observer` must outlive it. With
  // `shares_queues_with`, which need not outlive it, the two have the same polling threads.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Start(
      const NetworkAddress& address, const std::shared_ptr<grpc::ServerCredentials>& credentials,
      const ListenerOptions& options, const AddServices& add_services, Observer& observer,
      OnDeaf on_deaf, const GrpcListener* shares_queues_with = nullptr);
  ~GrpcListener();
  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;

  // With the real port in place of 0.
  const NetworkAddress& address() const { return address_; }
  // No name has a status before it is set.
  HealthService& health() { return health_; }

  // As ConnectionAcceptor::RecentPeers(); empty while it drains. Not during Drain().
  std::vector<std::string> RecentPeers() const {
    return acceptor_ == nullptr ? std::vector<std::string>() : acceptor_->RecentPeers();
  }

  // Stops accepting calls and waits for those that run; after `timeout` they
  // are cancelled. Returns when the last one has ended. Repeating it does
  // nothing.
  void Drain(absl::Duration timeout);

 private:
  // The interface by which gRPC takes over a connection.
  using Handover = grpc::experimental::ExternalConnectionAcceptor;

  GrpcListener(NetworkAddress address, const CallTable::Limits& calls, Observer& observer);

  void StartAccepting(ListeningSockets sockets, const ListenerOptions& options, Observer& observer,
                      OnDeaf on_deaf);
  // By their full names, without the reflection service.
  std::vector<std::string> Services(bool channelz) const;

  const NetworkAddress address_;
  HealthService health_;
  UnservedMethods unserved_;
  ReflectionService reflection_;
  QueuedMethods methods_;
  CallTable calls_;
  // Counted apart, so that a full table of calls does not make the process unhealthy.
  QueuedMethods health_methods_;
  CallTable health_calls_;
  // Null until the server is built.
  std::unique_ptr<CallQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Handover> handover_;
  // Null once it drains.
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  std::unique_ptr<StreamWatch> streams_;
  std::unique_ptr<PortProbe> probe_;
  bool drained_ = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_GRPC_LISTENER_H_
