// One of the three servers of a checkout: --role=order, payment or inventory.
#include <grpcpp/create_channel.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "examples/checkout/book.h"
#include "examples/checkout/inventory_service.h"
#include "examples/checkout/order_service.h"
#include "examples/checkout/payment_service.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client_interceptor/client_interceptor.h"
#include "grpc_idempotency/client_interceptor/retry_policy.h"
#include "grpc_idempotency/error_reflection.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/server_guard/guarded_server.h"

ABSL_FLAG(std::string, role, "", "order, payment or inventory.");
ABSL_FLAG(std::string, listen, "127.0.0.1:0", "Listen address; port 0 chooses a free port.");
ABSL_FLAG(std::string, idempotencyd, "127.0.0.1:7411", "Address of idempotencyd.");
ABSL_FLAG(std::string, book, "", "The SQLite file; ROLE.sqlite if empty.");
ABSL_FLAG(std::string, payment, "127.0.0.1:7422", "Address of the payment server.");
ABSL_FLAG(std::string, inventory, "127.0.0.1:7423", "Address of the inventory server.");
ABSL_FLAG(absl::Duration, lease, idempotency::limits::kDefaultLease,
          "How long a crashed attempt keeps its key.");
ABSL_FLAG(std::string, die_at, "",
          "Where the process kills itself, as by kill -9. order: before-payment, before-inventory, "
          "before-refund, before-refusal, before-order, before-reply; the others: before-effect, "
          "before-reply.");
ABSL_FLAG(std::string, not_sold, "", "An item that the inventory refuses for good.");

namespace checkout {
namespace {

constexpr absl::Duration kDrain = absl::Seconds(10);

// The role of this process, and the functions that need it.
struct Role {
  std::vector<std::string> methods;
  std::unique_ptr<grpc::Service> service;
  absl::Status (*protect)(idempotency::ServerGuard&, grpc::ServerBuilder&, grpc::Service*);
};

template <typename ServiceClass>
absl::Status Protect(idempotency::ServerGuard& guard, grpc::ServerBuilder& builder,
                     grpc::Service* service) {
  return guard.Protect<ServiceClass>(builder, service);
}

// [workflows:channel]
// The client interceptor gives attached calls their keys.
std::shared_ptr<grpc::Channel> DialStep(const std::string& address) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(idempotency::MakeClientInterceptor());
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      address, grpc::InsecureChannelCredentials(), idempotency::RetryingChannelArguments(),
      std::move(interceptors));
}
// [workflows:end]

absl::StatusOr<Role> MakeRole(const std::string& name, Book& book) {
  FailPoint fail_point(absl::GetFlag(FLAGS_die_at));
  if (name == "order") {
    return Role{{"/checkout.v1.Orders/Place"},
                std::make_unique<OrderService>(book, DialStep(absl::GetFlag(FLAGS_payment)),
                                               DialStep(absl::GetFlag(FLAGS_inventory)),
                                               std::move(fail_point)),
                Protect<v1::Orders>};
  }
  if (name == "payment") {
    return Role{{"/checkout.v1.Payments/Charge", "/checkout.v1.Payments/Refund"},
                std::make_unique<PaymentService>(book, std::move(fail_point)),
                Protect<v1::Payments>};
  }
  if (name == "inventory") {
    return Role{{"/checkout.v1.Inventory/Take"},
                std::make_unique<InventoryService>(book, std::move(fail_point),
                                                   absl::GetFlag(FLAGS_not_sold)),
                Protect<v1::Inventory>};
  }
  return absl::InvalidArgumentError("--role is order, payment or inventory");
}

idempotency::GuardOptions OptionsOf(const std::string& role,
                                    const std::vector<std::string>& methods) {
  idempotency::GuardOptions options;
  options.name_space = absl::StrCat("checkout-", role);
  // Each server has a single caller.
  options.scope = idempotency::SharedScope("shop");
  // A second execution is acceptable: each step's effect has the record id as its
  // key, and finished steps replay.
  options.on_unknown_outcome = idempotency::MethodPolicy::OnUnknownOutcome::kTakeOver;
  for (const std::string& method : methods) {
    options.methods[method].adjust = [](idempotency::MethodPolicy& policy) {
      policy.lease = absl::GetFlag(FLAGS_lease);
    };
  }
  return options;
}

// SIGINT and SIGTERM for this thread's sigwait; every thread that is started later inherits the
// mask.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

absl::Status Serve(const sigset_t& stop_signals) {
  const std::string name = absl::GetFlag(FLAGS_role);
  const std::string path = absl::GetFlag(FLAGS_book);
  auto book = Book::Open(path.empty() ? name + ".sqlite" : path);
  if (!book.ok()) return book.status();
  auto role = MakeRole(name, **book);
  if (!role.ok()) return role.status();
  auto guard = idempotency::ServerGuard::Create(
      grpc::CreateCustomChannel(absl::GetFlag(FLAGS_idempotencyd),
                                grpc::InsecureChannelCredentials(),
                                idempotency::IdempotencydChannelArguments()),
      OptionsOf(name, role->methods));
  if (!guard.ok()) return guard.status();

  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  idempotency::ReflectErrorDetails();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen), grpc::InsecureServerCredentials(), &port);
  const absl::Status guarded = role->protect(**guard, builder, role->service.get());
  if (!guarded.ok()) return guarded;
  auto server = idempotency::GuardedServer::Start(builder, *std::move(guard));
  if (!server.ok()) return server.status();
  if (port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", absl::GetFlag(FLAGS_listen)));
  }
  std::printf("%s: serving on 127.0.0.1:%d\n", name.c_str(), port);
  std::fflush(stdout);

  int signal = 0;
  sigwait(&stop_signals, &signal);
  (*server)->Shutdown(kDrain);
  return absl::OkStatus();
}

}  // namespace
}  // namespace checkout

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("One server of a checkout that resumes where it died.");
  absl::ParseCommandLine(argc, argv);
  // stdout has one line, for scripts; the log goes to stderr.
  spdlog::set_default_logger(spdlog::stderr_color_mt("checkout"));
  const sigset_t stop_signals = checkout::BlockStopSignals();
  if (absl::Status served = checkout::Serve(stop_signals); !served.ok()) {
    spdlog::error("{}", std::string(served.message()));
    return 1;
  }
  return 0;
}
