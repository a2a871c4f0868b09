// A payments service behind the guard, which takes two lines of main(): compare
// payments_server_unguarded.cc. A program that gives its server to idempotency::GuardedServer needs
// no Close() (examples/checkout).
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "absl/flags/flag.h"

#include "examples/payments/payments_guard.h"
#include "examples/payments/payments_service.h"
#include "examples/payments/server_setup.h"

constexpr std::chrono::seconds kDrain(10);

int main(int argc, char** argv) {
  const sigset_t stop_signals = payments::StartProgram(argc, argv);
  const std::unique_ptr<payments::Ledger> ledger = payments::OpenLedgerOrExit();
  payments::PaymentsService payments(*ledger, absl::GetFlag(FLAGS_charge_delay));

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen), grpc::InsecureServerCredentials(), &port);
  const auto guard = payments::GuardOrExit(builder, &payments);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    spdlog::error("cannot listen on {}", absl::GetFlag(FLAGS_listen));
    return 1;
  }
  std::printf("payments: serving on 127.0.0.1:%d\n", port);
  std::fflush(stdout);

  int signal = 0;
  sigwait(&stop_signals, &signal);
  spdlog::info("stopping");
  server->GetHealthCheckService()->SetServingStatus(false);
  guard->Close();
  server->Shutdown(std::chrono::system_clock::now() + kDrain);
  return 0;
}
