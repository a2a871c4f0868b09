#include "server/daemon.h"

#include <utility>

#include "server/listener_credentials.h"
#include "server/log.h"
#include "server/store_factory.h"

namespace idempotency {
namespace {

// Store calls at the same time. SQLite has one writer, so more workers would
// only wait for it with smaller batches; the second one reads meanwhile.
int WorkersFor(const ServeOptions& options) {
  return options.store.kind == StoreAddress::Kind::kSqlite ? 2 : options.store_connections;
}

// False: nothing but somebody's work on it makes this store usable.
bool MayRecover(const absl::Status& status) {
  return status.code() != absl::StatusCode::kFailedPrecondition &&
         status.code() != absl::StatusCode::kInvalidArgument;
}

void WarnIfExposed(const ServeOptions& options) {
  if (!options.tls.client_ca.empty() || options.listen.IsLocal()) return;
  Log(LogLevel::kWarn, "any client that reaches the address may read and complete records",
      {{"listen", options.listen.ToString()},
       {"advice", "set --tls_cert, --tls_key and --tls_client_ca"}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const ServeOptions& options,
                                                      StopRequest* stop) {
  std::unique_ptr<Daemon> daemon(new Daemon(options, stop));
  if (const absl::Status started = daemon->StartParts(); !started.ok()) return started;
  return daemon;
}

Daemon::Daemon(const ServeOptions& options, StopRequest* stop)
    : options_(options), stop_(stop), store_([this] { return Open(); }) {}

absl::StatusOr<std::unique_ptr<Store>> Daemon::Open() {
  absl::StatusOr<OpenedStore> opened = OpenStore(options_.store, options_.store_connections);
  if (!opened.ok()) return opened.status();
  connections_ = std::move(opened->connections);
  return std::move(opened->store);
}

absl::Status Daemon::StartParts() {
  // Whatever is wrong with files, the store or the schema shows before a port
  // opens.
  const auto credentials = MakeListenerCredentials(options_.tls);
  if (!credentials.ok()) return credentials.status();
  const absl::StatusOr<StoreGauges> inspected = store_.Inspect();
  if (!inspected.ok() && !MayRecover(inspected.status())) return inspected.status();
  WarnIfExposed(options_);

  if (options_.metrics.has_value()) {
    auto exposer = MetricsExposer::Start(*options_.metrics, metrics_.registry());
    if (!exposer.ok()) return exposer.status();
    exposer_ = *std::move(exposer);
  }

  Sweeper::Options sweeping;
  sweeping.interval = options_.sweep_interval;
  sweeper_.emplace(store_, metrics_, sweeping);
  sweeper_->Start();

  BatcherOptions batching;
  batching.threads = WorkersFor(options_);
  batcher_.emplace(store_, metrics_, batching);
  wait_room_.emplace(*batcher_, metrics_);
  service_.emplace(*batcher_, *wait_room_, metrics_);

  auto listener = GrpcListener::Start(options_.listen, *credentials, &*service_);
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);

  // Between the port's opening and this line, a few microseconds, gRPC's health
  // service says SERVING.
  health_.emplace(listener_->health());
  Inspected(inspected);
  monitor_.emplace(store_, StoreMonitor::Intervals(),
                   [this](const absl::StatusOr<StoreGauges>& gauges) { Inspected(gauges); });
  monitor_->Start();
  Log(LogLevel::kInfo, "serving",
      {{"listen", listener_->address().ToString()},
       {"store", options_.store.Display()},
       {"tls", options_.tls.certificate.empty() ? "off"
               : options_.tls.client_ca.empty() ? "on"
                                                : "mutual"}});
  return absl::OkStatus();
}

void Daemon::Inspected(const absl::StatusOr<StoreGauges>& gauges) {
  metrics_.StoreInspected(gauges);
  if (connections_ != nullptr) metrics_.ConnectionsChanged(connections_());
  health_->ReportStore(gauges.status());
  if (!gauges.ok() && !MayRecover(gauges.status())) stop_->Ask(gauges.status());
}

Daemon::~Daemon() {
  if (listener_ != nullptr) Log(LogLevel::kInfo, "stopping");
  if (health_.has_value()) health_->Drain();
  // Those who wait for a running attempt are told that it still runs, and come
  // back to another replica; nobody begins to wait from here on.
  if (wait_room_.has_value()) wait_room_->Close();
  if (listener_ != nullptr) listener_->Drain(options_.drain_timeout);
  // The rest is the members' destruction, in the reverse order.
}

const NetworkAddress* Daemon::metrics_address() const {
  return exposer_ == nullptr ? nullptr : &exposer_->address();
}

}  // namespace idempotency
