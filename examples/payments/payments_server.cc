// A payments service behind the guard. The three lines that matter are
// ServerGuard::Create, Protect and Install; the rest is what any server has.
#include <grpcpp/create_channel.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

#include "client/channel_arguments.h"
#include "core/limits.h"
#include "examples/payments/ledger.h"
#include "examples/payments/payments_service.h"
#include "interceptors/server/server_guard.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:7412", "Where to serve; port 0 takes a free one.");
ABSL_FLAG(std::string, idempotencyd, "127.0.0.1:7411", "Where idempotencyd serves.");
ABSL_FLAG(std::string, database, "payments.sqlite", "The ledger's SQLite file.");
ABSL_FLAG(std::string, accounts, "alice:100000,bob:300",
          "Accounts to open with their cents, name:cents,...; those that exist stay as they are.");
ABSL_FLAG(absl::Duration, charge_delay, absl::ZeroDuration(),
          "How long a charge waits before the money moves, for demonstrations.");
ABSL_FLAG(absl::Duration, lease, idempotency::limits::kDefaultLease,
          "How long a crashed attempt keeps its key.");
ABSL_FLAG(std::size_t, replay_cache_bytes, idempotency::ReplayCacheOptions().capacity_bytes,
          "What the guard may keep in memory of completed charges; 0 asks idempotencyd each time.");
ABSL_FLAG(std::string, namespace, "payments", "Whose records these are at idempotencyd.");
ABSL_FLAG(std::string, scope, "shared:demo",
          "Whose key a call carries: shared:NAME (a service with a single caller), metadata:KEY"
          " (set by an authenticating proxy) or authorization (static credentials).");

namespace payments {
namespace {

constexpr absl::Duration kMaxWait = absl::Seconds(2);
constexpr std::chrono::seconds kDrain(10);

absl::StatusOr<idempotency::ScopeFunction> ScopeFromFlag(absl::string_view flag) {
  if (absl::ConsumePrefix(&flag, "shared:") && !flag.empty()) {
    return idempotency::SharedScope(std::string(flag));
  }
  if (absl::ConsumePrefix(&flag, "metadata:") && !flag.empty()) {
    return idempotency::MetadataScope(std::string(flag));
  }
  if (flag == "authorization") return idempotency::AuthorizationScope();
  return absl::InvalidArgumentError("--scope is shared:NAME, metadata:KEY or authorization");
}

absl::Status OpenAccounts(Ledger& ledger, absl::string_view flag) {
  for (absl::string_view account : absl::StrSplit(flag, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(account, ':');
    std::int64_t cents = 0;
    if (!absl::SimpleAtoi(parts.second, &cents)) {
      return absl::InvalidArgumentError("--accounts is name:cents,...");
    }
    if (absl::Status opened = ledger.OpenAccount(parts.first, cents); !opened.ok()) return opened;
  }
  return absl::OkStatus();
}

// Both mutating methods: a duplicate waits a little for the first one's reply,
// and a crashed attempt may be run again after its lease.
absl::StatusOr<idempotency::GuardOptions> OptionsFromFlags() {
  auto scope = ScopeFromFlag(absl::GetFlag(FLAGS_scope));
  if (!scope.ok()) return scope.status();
  idempotency::GuardOptions options;
  options.name_space = absl::GetFlag(FLAGS_namespace);
  options.scope = *std::move(scope);
  idempotency::MethodPolicy policy;
  policy.in_flight = idempotency::MethodPolicy::InFlight::kWait;
  policy.max_wait = kMaxWait;
  policy.lease = absl::GetFlag(FLAGS_lease);
  options.replay_cache.capacity_bytes = absl::GetFlag(FLAGS_replay_cache_bytes);
  options.policies["/payments.v1.Payments/Charge"] = policy;
  options.policies["/payments.v1.Payments/Refund"] = policy;
  return options;
}

// SIGINT and SIGTERM for this thread to take with sigwait; every thread that
// is started later inherits the mask.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

absl::Status Serve(const sigset_t& stop_signals) {
  auto ledger = Ledger::Open(absl::GetFlag(FLAGS_database));
  if (!ledger.ok()) return ledger.status();
  if (auto opened = OpenAccounts(**ledger, absl::GetFlag(FLAGS_accounts)); !opened.ok()) {
    return opened;
  }
  PaymentsService payments(**ledger, absl::GetFlag(FLAGS_charge_delay));

  auto options = OptionsFromFlags();
  if (!options.ok()) return options.status();
  auto channel = grpc::CreateCustomChannel(absl::GetFlag(FLAGS_idempotencyd),
                                           grpc::InsecureChannelCredentials(),
                                           idempotency::IdempotencydChannelArguments());
  auto guard = idempotency::ServerGuard::Create(channel, *std::move(options));
  if (!guard.ok()) return guard.status();

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen), grpc::InsecureServerCredentials(), &port);
  // Instead of builder.RegisterService(&payments).
  absl::Status guarded = (*guard)->Protect<v1::Payments>(builder, &payments);
  if (guarded.ok()) guarded = (*guard)->Install(builder);
  if (!guarded.ok()) return guarded;
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", absl::GetFlag(FLAGS_listen)));
  }
  std::printf("payments: serving on 127.0.0.1:%d\n", port);
  std::fflush(stdout);

  int signal = 0;
  sigwait(&stop_signals, &signal);
  spdlog::info("stopping");
  server->GetHealthCheckService()->SetServingStatus(false);
  (*guard)->Close();
  server->Shutdown(std::chrono::system_clock::now() + kDrain);
  return absl::OkStatus();
}

}  // namespace
}  // namespace payments

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("A payments service whose calls cannot happen twice.");
  absl::ParseCommandLine(argc, argv);
  // stdout has one line, for scripts; the log goes to stderr.
  spdlog::set_default_logger(spdlog::stderr_color_mt("payments"));
  const sigset_t stop_signals = payments::BlockStopSignals();
  if (absl::Status served = payments::Serve(stop_signals); !served.ok()) {
    spdlog::error("{}", std::string(served.message()));
    return 1;
  }
  return 0;
}
