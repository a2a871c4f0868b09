// A program with an embedded idempotencyd, for tests that kill it.
//
// usage: embedded_server STORE EFFECTS
//
// Serves the Probe service on a free loopback port, guarded over an embedded service, and prints
// the address. Each run of the handler appends the request's account to the file EFFECTS and
// returns a reply that no other run would. Runs until it is killed.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/embedded/embedded_service.h"
#include "grpc_idempotency/uuid.h"
#include "tests/support/probe_server.h"

namespace idempotency::internal::testing {
namespace {

// In one write, so that a kill leaves whole lines.
grpc::Status Append(const std::string& path, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const bool written =
      file >= 0 && write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (file >= 0) close(file);
  return written ? grpc::Status::OK : grpc::Status(grpc::StatusCode::DATA_LOSS, "no effect");
}

int Serve(const std::string& store, const std::string& effects) {
  auto service = EmbeddedService::Open(store);
  if (!service.ok()) {
    std::cerr << service.status().message() << "\n";
    return 2;
  }
  ProbeServer::Options options;
  options.connect = [&service] { return (*service)->MakeConnection(); };
  options.handler = [&effects](grpc::ServerContextBase& context, const ActRequest& request,
                               ActReply& reply) {
    reply.set_payload(Uuid::Random().ToString());
    for (int i = 0; i < 16; ++i) (*reply.mutable_notes())[absl::StrCat("note-", i)] = "v";
    context.AddTrailingMetadata("run", reply.payload());
    return Append(effects, request.account() + "\n");
  };
  const ProbeServer server(std::move(options));
  std::cout << "embedded_server: serving on " << server.address() << std::endl;
  pause();
  return 0;
}

}  // namespace
}  // namespace idempotency::internal::testing

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: embedded_server STORE EFFECTS\n", stderr);
    return 2;
  }
  return idempotency::internal::testing::Serve(argv[1], argv[2]);
}
