// The cost of one blocking handler for the other calls of a callback server, and the cost of a lone
// call: guarded over a connection that answers at once, and unguarded. Prints medians in
// microseconds. A call that is not answered within 5 s counts as 5 s.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"

#include "bench/charges.grpc.pb.h"
#include "client/testing/fake_connection.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "grpc_idempotency/uuid.h"

ABSL_FLAG(int, calls, 500, "Calls of each measurement, one after another.");

namespace idempotency::internal::bench {
namespace {

using charges::v1::ChargeReply;
using charges::v1::ChargeRequest;
using charges::v1::Charges;

void OrExit(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "blocking_handler: %s\n", status.ToString().c_str());
  std::exit(1);
}

// Charges; for an account called "blocks" the handlers wait until they are released. That breaks
// the callback API's rule.
class BlockingService final : public Charges::CallbackService {
 public:
  grpc::ServerUnaryReactor* Charge(grpc::CallbackServerContext* context,
                                   const ChargeRequest* request, ChargeReply* reply) override {
    if (request->account() == "blocks") {
      ++blocked_;
      released_.wait();
    }
    reply->set_receipt("r");
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  int blocked() const { return blocked_; }
  void Release() { release_.set_value(); }

 private:
  std::atomic<int> blocked_{0};
  std::promise<void> release_;
  const std::shared_future<void> released_{release_.get_future()};
};

// The service on a port, guarded or not.
class Serving {
 public:
  explicit Serving(bool guarded) {
    grpc::ServerBuilder builder;
    if (guarded) {
      GuardOptions options;
      options.name_space = "bench";
      options.scope = SharedScope("everybody");
      options.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
      guard_ = ServerGuard::Create(std::make_unique<FakeConnection>(), std::move(options)).value();
      OrExit(guard_->Protect<Charges>(builder, &service_));
      OrExit(guard_->Install(builder));
    } else {
      builder.RegisterService(&service_);
    }
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    server_ = builder.BuildAndStart();
    stub_ = Charges::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                 grpc::InsecureChannelCredentials()));
  }
  ~Serving() {
    if (guard_ != nullptr) guard_->Close();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  }

  // The duration of the call.
  std::chrono::microseconds Charge(const std::string& account) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    context.AddMetadata("idempotency-key", Uuid::Random().ToString());
    ChargeRequest request;
    request.set_account(account);
    ChargeReply reply;
    const auto begun = std::chrono::steady_clock::now();
    stub_->Charge(&context, request, &reply);
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                                 begun);
  }
  BlockingService& service() { return service_; }

 private:
  BlockingService service_;
  std::unique_ptr<ServerGuard> guard_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Charges::Stub> stub_;
};

// The median of calls one after another.
std::int64_t MedianMicros(Serving& serving, int calls) {
  std::vector<std::int64_t> micros;
  for (int i = 0; i < calls; ++i) micros.push_back(serving.Charge("alice").count());
  std::nth_element(micros.begin(), micros.begin() + calls / 2, micros.end());
  return micros[static_cast<std::size_t>(calls) / 2];
}

void Measure(const char* name, bool guarded, int calls, int blocked_calls) {
  Serving serving(guarded);
  MedianMicros(serving, 50);  // connects, begins threads
  const std::int64_t lone = MedianMicros(serving, calls);
  std::vector<std::thread> blockers;
  std::vector<std::int64_t> beside;
  for (int blocked : {1, 2, 4}) {
    while (static_cast<int>(blockers.size()) < blocked) {
      blockers.emplace_back([&serving] { serving.Charge("blocks"); });
    }
    // Those that get no thread never begin.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (serving.service().blocked() < blocked && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
    }
    beside.push_back(MedianMicros(serving, blocked_calls));
  }
  std::printf("%-10s lone %lld us; beside 1, 2, 4 blocked handlers: %lld, %lld, %lld us\n", name,
              static_cast<long long>(lone), static_cast<long long>(beside[0]),
              static_cast<long long>(beside[1]), static_cast<long long>(beside[2]));
  serving.service().Release();
  for (std::thread& blocker : blockers) blocker.join();
}

}  // namespace
}  // namespace idempotency::internal::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const int calls = absl::GetFlag(FLAGS_calls);
  // Each may take 5 s.
  constexpr int kBesideBlocked = 3;
  idempotency::internal::bench::Measure("unguarded", /*guarded=*/false, calls, kBesideBlocked);
  idempotency::internal::bench::Measure("guarded", /*guarded=*/true, calls, kBesideBlocked);
  return 0;
}
