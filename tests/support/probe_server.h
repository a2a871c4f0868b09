#ifndef IDEMPOTENCY_TESTS_SUPPORT_PROBE_SERVER_H_
#define IDEMPOTENCY_TESTS_SUPPORT_PROBE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "grpc_idempotency/server_guard/server_guard.h"
#include "tests/support/connection_gate.h"
#include "tests/support/probe_service.h"

namespace idempotency::internal::testing {

// A real gRPC server on a loopback port: the Probe service behind a guard that is connected to
// idempotencyd. Closes the guard, then shuts down, when destroyed. Thread-safe once made.
class ProbeServer {
 public:
  struct Options {
    // The target for grpc::CreateChannel: "127.0.0.1:7411", or several as
    // "ipv4:127.0.0.1:7411,127.0.0.2:7411".
    std::string idempotencyd;
    // When set, replaces it: the channel of a service in this process.
    std::shared_ptr<grpc::Channel> channel;
    // When set, replaces both: makes the connection to an embedded service.
    std::function<std::unique_ptr<Connection>()> connect;
    // When set, operations pass through this gate.
    std::shared_ptr<ConnectionGate> gate;
    Api api = Api::kSync;
    ProbeHandler handler;
    // One shared scope in the namespace "probe" unless the test sets another; a second execution is
    // acceptable, since tests count them. The replay cache is off: most tests check that the store
    // keeps records.
    GuardOptions guard = WithoutReplayCache();
    ServerGuard::InterceptorFactories interceptors;
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    // For a test that adds its own parts to the server.
    std::function<void(grpc::ServerBuilder&)> configure;
    // For a test with services of its own, which outlive the server: replaces the protection of the
    // Probe service around `handler`.
    std::function<absl::Status(ServerGuard&, grpc::ServerBuilder&)> protect;
  };

  static GuardOptions WithoutReplayCache();

  // Aborts the test process if the server cannot be made.
  explicit ProbeServer(Options options);
  ~ProbeServer();

  const std::string& address() const { return address_; }
  ServerGuard& guard() { return *guard_; }
  grpc::Server& server() { return *server_; }
  // Close(), then Shutdown(deadline).
  void Stop(std::chrono::system_clock::time_point deadline);

 private:
  std::unique_ptr<ProbeService> service_;
  std::unique_ptr<ServerGuard> guard_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_PROBE_SERVER_H_
