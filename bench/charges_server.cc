// The Charges service as a process: unguarded on one port and, with --idempotencyd, guarded on
// another one. Prints the ports on one line when it serves.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"

#include "bench/charges_service.h"
#include "bench/stop_signals.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/embedded/embedded_service.h"
#include "grpc_idempotency/server_guard/server_guard.h"

ABSL_FLAG(std::string, idempotencyd, "", "Address of idempotencyd; empty: no guarded port.");
ABSL_FLAG(std::string, embedded_store, "",
          "Store of an embedded service, as idempotencyd's --store, in place of idempotencyd.");
ABSL_FLAG(std::size_t, reply_bytes, 256, "Size of a reply's receipt.");
ABSL_FLAG(std::size_t, replay_cache_bytes, idempotency::ReplayCacheOptions().capacity_bytes,
          "Size of the guard's replay cache; 0 queries idempotencyd each time.");

namespace idempotency::internal::bench {
namespace {

constexpr char kListen[] = "127.0.0.1:0";
constexpr std::chrono::seconds kDrain(5);

void OrExit(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << "charges_server: " << status.message() << "\n";
  std::exit(1);
}

// A server with its service. Stops when destroyed.
class Serving {
 public:
  Serving() : service_(absl::GetFlag(FLAGS_reply_bytes)) {}
  ~Serving() {
    if (guard_ != nullptr) guard_->Close();
    server_->Shutdown(std::chrono::system_clock::now() + kDrain);
  }

  // Returns the port.
  int StartBare() {
    builder_.RegisterService(&service_);
    return Start();
  }
  int StartGuarded() {
    GuardOptions options;
    options.name_space = "bench";
    options.scope = SharedScope("everybody");
    options.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
    options.replay_cache.capacity_bytes = absl::GetFlag(FLAGS_replay_cache_bytes);
    auto guard = CreateGuard(std::move(options));
    OrExit(guard.status());
    guard_ = *std::move(guard);
    OrExit(guard_->Protect<charges::v1::Charges>(builder_, &service_));
    OrExit(guard_->Install(builder_));
    return Start();
  }

 private:
  absl::StatusOr<std::unique_ptr<ServerGuard>> CreateGuard(GuardOptions options) {
    const std::string store = absl::GetFlag(FLAGS_embedded_store);
    if (store.empty()) {
      return ServerGuard::Create(grpc::CreateCustomChannel(absl::GetFlag(FLAGS_idempotencyd),
                                                           grpc::InsecureChannelCredentials(),
                                                           IdempotencydChannelArguments()),
                                 std::move(options));
    }
    auto opened = EmbeddedService::Open(store);
    OrExit(opened.status());
    embedded_ = *std::move(opened);
    return ServerGuard::Create(embedded_->MakeConnection(), std::move(options));
  }
  int Start() {
    int port = 0;
    builder_.AddListeningPort(kListen, grpc::InsecureServerCredentials(), &port);
    server_ = builder_.BuildAndStart();
    if (server_ == nullptr || port == 0) OrExit(absl::UnavailableError("cannot listen"));
    return port;
  }

  ChargesService service_;
  // If the guard has no idempotencyd.
  std::unique_ptr<EmbeddedService> embedded_;
  std::unique_ptr<ServerGuard> guard_;
  grpc::ServerBuilder builder_;
  std::unique_ptr<grpc::Server> server_;
};

void Serve(const sigset_t& stop_signals) {
  Serving bare;
  std::string line = "charges: serving on 127.0.0.1:" + std::to_string(bare.StartBare());
  std::unique_ptr<Serving> guarded;
  if (!absl::GetFlag(FLAGS_idempotencyd).empty() || !absl::GetFlag(FLAGS_embedded_store).empty()) {
    guarded = std::make_unique<Serving>();
    line += ", guarded on 127.0.0.1:" + std::to_string(guarded->StartGuarded());
  }
  std::cout << line << std::endl;
  int signal = 0;
  sigwait(&stop_signals, &signal);
}

}  // namespace
}  // namespace idempotency::internal::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("the Charges service, bare and guarded, for measurements.");
  absl::ParseCommandLine(argc, argv);
  const sigset_t stop_signals = idempotency::internal::bench::BlockStopSignals();
  idempotency::internal::bench::Serve(stop_signals);
  return 0;
}
