#include "server/process/daemon.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "grpc_idempotency/limits.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/files/file_content.h"
#include "server/limits.h"
#include "server/observability/log.h"
#include "server/observability/version.h"
#include "server/process/descriptor_limit.h"
#include "server/process/listener_credentials.h"
#include "server/service/store_factory.h"

namespace idempotency::internal {
namespace {

// True if it does: other machines reach one of the addresses, without TLS.
bool WarnIfExposed(const ServeOptions& options) {
  if (!options.tls.certificate.empty()) return false;
  bool exposed = false;
  const auto warn = [&exposed](const char* flag, const NetworkAddress& address) {
    if (address.IsLocal()) return;
    exposed = true;
    Log(LogLevel::kWarn, "calls from other machines are accepted without TLS",
        {{flag, address.ToString()},
         {"advice", "set --tls_cert and --tls_key, unless the network encrypts"}});
  };
  warn("listen", options.listen);
  if (options.console) warn("console", *options.console);
  if (options.ext_proc) warn("ext_proc", *options.ext_proc);
  return exposed;
}

// A session moves to another connection in the first half of the grace.
void WarnIfGraceIsShort(const ListenerOptions& listener) {
  if (listener.connection_grace >= 2 * limits::kMaxWait) return;
  Log(LogLevel::kWarn, "calls that wait for a running attempt may be cut",
      {{"connection_grace", absl::FormatDuration(listener.connection_grace)},
       {"advice", absl::StrCat("set --connection_grace to at least ",
                               absl::FormatDuration(2 * limits::kMaxWait))}});
}

// The operator of a restore sees that it applies.
void LogNotBefore(const LoadedConfig& config) {
  const auto of_namespaces =
      std::count_if(config.namespaces.begin(), config.namespaces.end(),
                    [](const auto& listed) { return listed.second.not_before.has_value(); });
  if (!config.not_before && of_namespaces == 0) return;
  Log(LogLevel::kInfo, "unknown keys from before not_before are expired",
      {{"not_before", config.not_before ? absl::FormatTime(*config.not_before, absl::UTCTimeZone())
                                        : "of some namespaces only"},
       {"namespaces_with_their_own", of_namespaces}});
}

// There is no file yet, but perhaps there was one: the volume was not mounted, or the path was
// changed.
bool BeginsNewFile(const StoreAddress& store) {
  std::error_code error;
  return store.kind == StoreAddress::Kind::kSqlite &&
         !std::filesystem::exists(store.location, error);
}

ListenerOptions BoundListener(const ServeOptions& options) {
  ListenerOptions listener = options.listener;
  const int wanted =
      options.max_connections == 0 ? limits::kMaxConnections : options.max_connections;
  const int allowed = DescriptorLimit::Current().ForConnections(options.ext_proc ? 2 : 1);
  if (options.max_connections > allowed) {
    Log(LogLevel::kWarn, "fewer connections than --max_connections",
        {{"wanted", wanted},
         {"connections", allowed},
         {"advice", "raise the limit of open descriptors"}});
  }
  listener.connections = ListenerOptions::ConnectionsWithin(std::min(wanted, allowed));
  return listener;
}

// `local`: the collector is on this machine.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> OtlpCredentials(
    const ServeOptions& options, bool local) {
  if (options.otlp_ca.empty() && (local || options.otlp_plaintext)) {
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions tls;
  if (!options.otlp_ca.empty()) {
    absl::StatusOr<std::string> authorities = FileContent(options.otlp_ca);
    if (!authorities.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--otlp_ca=", options.otlp_ca, ": ", authorities.status().message()));
    }
    tls.pem_root_certs = *std::move(authorities);
  }
  return grpc::SslCredentials(tls);
}

void LogServing(const ServeOptions& options, const NetworkAddress& address) {
  const ListenerTlsFiles& tls = options.tls;
  Log(LogLevel::kInfo, "serving",
      {{"listen", address.ToString()},
       {"store", options.store.Display()},
       {"tls", tls.certificate.empty() ? "off"
               : tls.client_ca.empty() ? "on"
                                       : "mutual"},
       {"sealing", options.sealing.key_ring.empty()  ? "off"
                   : options.sealing.accept_unsealed ? "on, unsealed rows are accepted"
                                                     : "on"}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const ServeOptions& options,
                                                      StopRequest* stop,
                                                      FurtherServiceKind ext_proc) {
  std::unique_ptr<Daemon> daemon(new Daemon(options, stop, std::move(ext_proc)));
  if (const absl::Status started = daemon->StartParts(); !started.ok()) {
    return started;
  }
  return daemon;
}

Daemon::Daemon(const ServeOptions& options, StopRequest* stop, FurtherServiceKind ext_proc)
    : options_(options), stop_(stop), ext_proc_kind_(std::move(ext_proc)) {}

// Any fault of the files, the store or the schema is reported before a port opens.
absl::Status Daemon::StartParts() {
  auto credentials = ListenerCredentials::Make(options_.tls, metrics_);
  if (!credentials.ok()) return credentials.status();
  credentials_ = *std::move(credentials);
  if (absl::Status started = LoadConfiguration(); !started.ok()) return started;
  if (absl::Status started = StartTracing(); !started.ok()) return started;
  if (absl::Status started = StartService(); !started.ok()) return started;
  metrics_.PlaintextServed(WarnIfExposed(options_));
  WarnIfGraceIsShort(options_.listener);
  if (absl::Status started = StartMetrics(); !started.ok()) return started;
  if (absl::Status started = StartConsole(); !started.ok()) return started;
  if (absl::Status made = MakeExtProc(); !made.ok()) return made;
  WatchConfig();
  if (absl::Status listening = Listen(); !listening.ok()) return listening;
  if (absl::Status listening = ListenForExtProc(); !listening.ok()) return listening;
  ReportHandshakes();
  WatchStore();
  LogServing(options_, listener_->address());
  return absl::OkStatus();
}

absl::Status Daemon::StartService() {
  const bool begins_new_file = BeginsNewFile(options_.store);
  auto stack = ServiceStack::Start(
      options_.store, options_, options_.read_only ? SchemaPolicy::kRead : SchemaPolicy::kCheck,
      metrics_, {&access_, &tenants_, options_.sealing, tracer_.get()});
  if (!stack.ok()) return stack.status();
  stack_ = *std::move(stack);
  if (begins_new_file) {
    Log(LogLevel::kWarn, "the store is a new file without records",
        {{"store", options_.store.Display()},
         {"advice",
          "expected at the first start; otherwise stop, and correct the path or the "
          "volume: operations that it has no record of run again"}});
  }
  stack_->ServeAdmin();
  return absl::OkStatus();
}

absl::Status Daemon::StartMetrics() {
  if (!options_.metrics.has_value()) return absl::OkStatus();
  auto exposer = MetricsExposer::Start(*options_.metrics, metrics_.registry(), {}, metrics_);
  if (!exposer.ok()) return exposer.status();
  exposer_ = *std::move(exposer);
  return absl::OkStatus();
}

absl::Status Daemon::StartTracing() {
  if (options_.otlp_endpoint.empty()) return absl::OkStatus();
  const absl::StatusOr<NetworkAddress> address = NetworkAddress::Parse(options_.otlp_endpoint);
  const bool local = address.ok() && address->IsLocal();
  const auto credentials = OtlpCredentials(options_, local);
  if (!credentials.ok()) return credentials.status();
  OtlpExporter::Options exporting;
  exporting.service = "idempotencyd";
  exporting.version = std::string(Version());
  OtlpExporter::Events events;
  events.exported = [this](std::size_t spans) { metrics_.SpansExported(spans); };
  events.dropped = [this](std::size_t spans) { metrics_.SpansDropped(spans); };
  events.outage = [](const absl::Status& status) {
    if (status.ok()) {
      Log(LogLevel::kInfo, "spans are exported again");
    } else {
      Log(LogLevel::kWarn, "spans cannot be exported", {{"error", status.message()}});
    }
  };
  grpc::ChannelArguments arguments;
  // The environment may name a proxy, which is another machine.
  if (local) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  tracer_ = std::make_unique<OtlpExporter>(
      grpc::CreateCustomChannel(options_.otlp_endpoint, *credentials, arguments), exporting,
      std::move(events));
  return absl::OkStatus();
}

absl::Status Daemon::StartConsole() {
  if (!options_.console) return absl::OkStatus();
  auto sockets = ListeningSockets::Bind(*options_.console, " for the console");
  if (!sockets.ok()) return sockets.status();
  console_sockets_.emplace(*std::move(sockets));
  const ServiceStack::Admin admin = stack_->admin();
  console_.emplace(ConsoleApi::Service{admin.administration, admin.worker, admin.budget, access_,
                                       tenants_, metrics_.registry()});
  TlsSource tls;
  if (!options_.tls.certificate.empty()) tls = [this] { return credentials_->content(); };
  auto started = HttpListener::Start(console_sockets_->sockets(), tls,
                                     [this](const HttpRequest& request, const HttpReply& reply) {
                                       console_->Answer(request, reply);
                                     },
                                     {});
  if (!started.ok()) return started.status();
  console_listener_ = *std::move(started);
  return absl::OkStatus();
}

absl::Status Daemon::LoadConfiguration() {
  if (options_.config.empty()) return absl::OkStatus();
  absl::StatusOr<LoadedConfig> loaded = LoadConfig(options_.config);
  if (!loaded.ok()) return loaded.status();
  access_.Restrict(std::make_shared<AccessPolicy>(loaded->access), Clock::System());
  tenants_.Configure(loaded->namespaces, loaded->not_before);
  LogNotBefore(*loaded);
  config_ = *std::move(loaded);
  return absl::OkStatus();
}

absl::Status Daemon::MakeExtProc() {
  if (!options_.ext_proc) {
    return config_.has_value() ? ConfigureExtProc(*config_) : absl::OkStatus();
  }
  if (!ext_proc_kind_.make) {
    return absl::UnimplementedError("--ext_proc: this build has no external processor");
  }
  auto made = ext_proc_kind_.make({*config_, !options_.ext_proc->IsLocal(),
                                   options_.listener.calls.per_peer, stack_->operations(), access_,
                                   metrics_, *metrics_.registry()});
  if (!made.ok()) return made.status();
  ext_proc_ = *std::move(made);
  return absl::OkStatus();
}

absl::Status Daemon::Listen() {
  auto listener = GrpcListener::Start(
      options_.listen, credentials_->credentials(), BoundListener(options_).ForOperations(),
      [this](grpc::ServerBuilder& builder, QueuedMethods& methods) {
        stack_->Register(builder, methods);
      },
      metrics_, [this](const absl::Status& why) { stop_->Request(why); });
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);
  return absl::OkStatus();
}

absl::Status Daemon::ListenForExtProc() {
  if (ext_proc_ == nullptr) return absl::OkStatus();
  auto listener = GrpcListener::Start(
      *options_.ext_proc, credentials_->credentials(), BoundListener(options_).ForExchanges(),
      [this](grpc::ServerBuilder& builder, QueuedMethods& methods) {
        ext_proc_->Register(builder, methods);
      },
      metrics_, [this](const absl::Status& why) { stop_->Request(why); }, listener_.get());
  if (!listener.ok()) return listener.status();
  ext_proc_listener_ = *std::move(listener);
  return absl::OkStatus();
}

// gRPC does not identify the connection of which a handshake failed.
std::string Daemon::RecentPeers() const {
  std::vector<std::string> peers = listener_->RecentPeers();
  if (ext_proc_listener_ != nullptr) {
    const std::vector<std::string> more = ext_proc_listener_->RecentPeers();
    peers.insert(peers.end(), more.begin(), more.end());
  }
  return absl::StrJoin(peers, ", ");
}

void Daemon::ReportHandshakes() {
  if (options_.tls.certificate.empty()) return;
  failed_handshakes_.emplace([this](std::string_view error) {
    metrics_.HandshakeFailed(error, [this] { return RecentPeers(); });
  });
}

absl::Status Daemon::ConfigureExtProc(const LoadedConfig& config) {
  if (ext_proc_ != nullptr) return ext_proc_->Configure(config);
  if (!ext_proc_kind_.check) return absl::OkStatus();
  const absl::Status valid = ext_proc_kind_.check(config);
  // A program without the external processor serves the rest of the file.
  return absl::IsUnimplemented(valid) ? absl::OkStatus() : valid;
}

void Daemon::WatchConfig() {
  if (!config_.has_value()) return;
  config_watcher_ = std::make_unique<ConfigWatcher>(
      options_.config, *config_, access_, tenants_, metrics_,
      [this](const LoadedConfig& config) { return ConfigureExtProc(config); });
}

void Daemon::WatchStore() {
  std::vector<Health::Port> ports = {
      {&listener_->health(), v1::IdempotencyService::service_full_name()}};
  if (ext_proc_listener_ != nullptr) {
    ports.push_back({&ext_proc_listener_->health(), ext_proc_->service_name()});
  }
  health_.emplace(std::move(ports));
  monitor_ = stack_->Watch(
      [this](const absl::StatusOr<StoreGauges>& gauges) { Inspected(gauges.status()); });
}

void Daemon::Inspected(const absl::Status& store) {
  health_->ReportStore(store);
  if (!store.ok() && !MayRecover(store)) stop_->Request(store);
}

Daemon::~Daemon() {
  if (listener_ != nullptr) Log(LogLevel::kInfo, "stopping");
  failed_handshakes_.reset();
  if (health_.has_value()) health_->Drain();
  // Callers that wait for a running attempt are answered that it still runs,
  // and retry at another replica; no call begins to wait from here on.
  if (stack_ != nullptr) stack_->StopWaiting();
  // Both at once: an exchange lasts as long as its service takes.
  std::thread ext_proc_drain;
  if (ext_proc_listener_ != nullptr) {
    ext_proc_->Close();
    ext_proc_drain = std::thread([this] {
      pthread_setname_np(pthread_self(), "ext-proc-drain");
      ext_proc_listener_->Drain(options_.drain_timeout);
    });
  }
  if (listener_ != nullptr) listener_->Drain(options_.drain_timeout);
  if (ext_proc_drain.joinable()) ext_proc_drain.join();
  // The rest is the members' destruction, in the reverse order.
}

const NetworkAddress* Daemon::ext_proc_address() const {
  return ext_proc_listener_ == nullptr ? nullptr : &ext_proc_listener_->address();
}

const NetworkAddress* Daemon::console_address() const {
  return console_sockets_ ? &console_sockets_->address() : nullptr;
}

const NetworkAddress* Daemon::metrics_address() const {
  return exposer_ == nullptr ? nullptr : &exposer_->address();
}

}  // namespace idempotency::internal
