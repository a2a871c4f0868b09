#include "server/process/testing_daemon.h"

#include <grpcpp/security/server_credentials.h>

#include <utility>

#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

// Every other address is one that other machines may reach, and there is neither TLS nor a rule.
constexpr char kLoopback[] = "127.0.0.1";

}  // namespace

absl::StatusOr<std::unique_ptr<TestingDaemon>> TestingDaemon::Start(
    const ServeTestingOptions& options, StopRequest* stop) {
  // Private constructor.
  std::unique_ptr<TestingDaemon> daemon(new TestingDaemon());
  const auto add_services = [&daemon](grpc::ServerBuilder& builder, QueuedMethods& /*methods*/) {
    builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kMaxMessageBytes));
    builder.SetMaxSendMessageSize(static_cast<int>(limits::kMaxMessageBytes));
    builder.RegisterService(&daemon->router_);
    builder.RegisterService(&daemon->testing_);
  };
  NetworkAddress address;
  address.host = kLoopback;
  address.port = options.port;
  auto listener = GrpcListener::Start(address, grpc::InsecureServerCredentials(), ListenerOptions(),
                                      add_services, daemon->metrics_,
                                      [stop](const absl::Status& why) { stop->Request(why); });
  if (!listener.ok()) return listener.status();
  daemon->listener_ = *std::move(listener);
  daemon->listener_->health().SetServingStatus("idempotency.v1.IdempotencyService", true);
  return daemon;
}

TestingDaemon::~TestingDaemon() {
  worlds_.StopWaiting();
  if (listener_ != nullptr) listener_->Drain(absl::Seconds(1));
}

}  // namespace idempotency::internal
