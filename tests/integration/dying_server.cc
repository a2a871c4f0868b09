// A guarded server whose handler stores a checkpoint, prints that to stdout, and never ends: for
// tests that kill a process in the middle of an operation.
//
// usage: dying_server IDEMPOTENCYD sync|callback
#include <iostream>
#include <string>

#include "core/mutex.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "tests/support/gate.h"
#include "tests/support/probe_server.h"

namespace idempotency::internal::testing {
namespace {

constexpr char kAct[] = "/idempotency.testing.Probe/Act";

int Main(const std::string& idempotencyd, const std::string& api) {
  Gate never;
  Mutex mutex;
  ProbeServer::Options options;
  options.idempotencyd = idempotencyd;
  options.api = api == "sync" ? Api::kSync : Api::kCallback;
  options.guard.methods[kAct].MutableReplacementPolicy().lease = absl::Milliseconds(300);
  options.guard.methods[kAct].MutableReplacementPolicy().on_unknown_outcome =
      MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  options.handler = [&](grpc::ServerContextBase& context, const ActRequest& request, ActReply&) {
    const absl::Status stored =
        Execution::FromContext(&context)->Checkpoint("charged " + request.account());
    {
      MutexLock lock(mutex);
      std::cout << (stored.ok() ? "stored " : "refused ") << request.account() << std::endl;
    }
    never.Enter();
    return grpc::Status::OK;
  };
  const ProbeServer server(std::move(options));
  {
    MutexLock lock(mutex);
    std::cout << "serving on " << server.address() << std::endl;
  }
  never.Enter();
  return 0;
}

}  // namespace
}  // namespace idempotency::internal::testing

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: dying_server IDEMPOTENCYD sync|callback\n";
    return 2;
  }
  return idempotency::internal::testing::Main(argv[1], argv[2]);
}
