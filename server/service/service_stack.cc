#include "server/service/service_stack.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include "grpc_idempotency/limits.h"
#include "server/sealing/sealed_store.h"
#include "server/service/read_only_store.h"

namespace idempotency::internal {
namespace {

// Store calls at the same time. SQLite has one writer, so more workers would
// only wait for it with smaller batches; the second one reads meanwhile.
int WorkersFor(const StoreAddress& address, const ServiceOptions& options) {
  return address.kind == StoreAddress::Kind::kSqlite ? 2 : options.store_connections;
}

// As OpenTelemetry's `db.system`.
std::string_view SystemOf(StoreAddress::Kind kind) {
  switch (kind) {
    case StoreAddress::Kind::kSqlite:
      return "sqlite";
    case StoreAddress::Kind::kRedis:
      return "redis";
    case StoreAddress::Kind::kPostgres:
      break;
  }
  return "postgresql";
}

void SetMessageSizes(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kMaxMessageBytes));
  // A Get answers up to a whole reply.
  builder.SetMaxSendMessageSize(static_cast<int>(limits::kMaxMessageBytes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceStack>> ServiceStack::Start(const StoreAddress& address,
                                                                  const ServiceOptions& options,
                                                                  SchemaPolicy schema,
                                                                  Observer& observer,
                                                                  const Sharing& sharing) {
  // Private constructor.
  std::unique_ptr<ServiceStack> stack(
      new ServiceStack(address, options, schema, observer, sharing));
  if (absl::Status keys = stack->StartKeyRing(); !keys.ok()) return keys;
  stack->first_look_ = stack->store_->Inspect();
  const absl::Status& seen = stack->first_look_.status();
  if (!seen.ok() && !MayRecover(seen)) return seen;
  stack->StartParts();
  return stack;
}

ServiceStack::ServiceStack(const StoreAddress& address, const ServiceOptions& options,
                           SchemaPolicy schema, Observer& observer, const Sharing& sharing)
    : address_(address),
      options_(options),
      schema_(schema),
      observer_(observer),
      sharing_(sharing),
      store_([this] { return Open(); }) {}

absl::Status ServiceStack::StartKeyRing() {
  if (sharing_.sealing.key_ring.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<KeyRingWatch>> started =
      KeyRingWatch::Start(sharing_.sealing, observer_);
  if (!started.ok()) return started.status();
  key_ring_ = *std::move(started);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Store>> ServiceStack::Open() {
  absl::StatusOr<OpenedStore> opened = OpenStore(address_, options_.store_connections, schema_);
  if (!opened.ok()) return opened.status();
  connections_ = std::move(opened->connections);
  if (schema_ == SchemaPolicy::kRead) {
    opened->store = std::make_unique<ReadOnlyStore>(std::move(opened->store));
  }
  if (key_ring_ == nullptr) return std::move(opened->store);
  SealedStoreOptions options;
  options.accept_unsealed = sharing_.sealing.accept_unsealed;
  return std::make_unique<SealedStore>(std::move(opened->store), key_ring_->rings(), options);
}

void ServiceStack::StartParts() {
  Sweeper::Options sweeping;
  sweeping.interval = options_.sweep_interval;
  if (sharing_.tenants != nullptr) {
    sweeping.unknown_lives = [tenants = sharing_.tenants] { return tenants->UnknownLives(); };
  }
  const bool writes = schema_ != SchemaPolicy::kRead;
  if (writes) {
    sweeper_.emplace(*store_, observer_, sweeping);
    sweeper_->Start();
  }

  if (writes && sharing_.tenants != nullptr) {
    usage_meter_.emplace(*store_, *sharing_.tenants, UsageMeter::Options());
    usage_meter_->Start();
  }

  BatcherOptions batching;
  batching.threads = WorkersFor(address_, options_);
  batching.max_bytes = static_cast<std::size_t>(options_.queue_mib) * 1024 * 1024;
  batching.tracer = sharing_.tracer;
  batching.store_system = SystemOf(address_.kind);
  batcher_.emplace(*store_, observer_, batching);
  waiters_.emplace(*batcher_, observer_);
  IdempotencyServiceOptions serving;
  serving.session.max_age = options_.session_age;
  // Elsewhere every grant is durable, and separate batches would only cost commits.
  serving.relaxed_reservations =
      options_.relaxed_reservations && address_.kind == StoreAddress::Kind::kPostgres;
  serving.first_call = [this] { unread_answer_watch_->Start(); };
  serving.access = sharing_.access;
  serving.tenants = sharing_.tenants;
  serving.tracer = sharing_.tracer;
  service_.emplace(*batcher_, *waiters_, observer_, serving);
  unread_answer_watch_.emplace(*service_);
}

void ServiceStack::ServeAdmin() {
  administration_.emplace(*store_, *store_, *waiters_, observer_);
  admin_worker_.emplace();
  admin_service_.emplace(*administration_, *admin_worker_, batcher_->budget(), *sharing_.access,
                         service_->unread_answers());
}

void ServiceStack::Register(grpc::ServerBuilder& builder) {
  SetMessageSizes(builder);
  builder.RegisterService(&*service_);
  if (admin_service_) builder.RegisterService(&*admin_service_);
}

void ServiceStack::Register(grpc::ServerBuilder& builder, QueuedMethods& methods) {
  SetMessageSizes(builder);
  queued_service_.emplace(*service_).Register(builder, methods);
  if (admin_service_) queued_admin_service_.emplace(*admin_service_).Register(builder, methods);
}

// A session that its caller broke may have ended while its operations are at the store: their
// answers need the other members.
ServiceStack::~ServiceStack() {
  if (batcher_) batcher_->Close();
}

void ServiceStack::StopWaiting() {
  service_->DrainSessions();
  waiters_->Close();
  if (admin_worker_) admin_worker_->Hurry();
}

void ServiceStack::Close() {
  StopWaiting();
  unread_answer_watch_->Stop();
  if (admin_worker_) admin_worker_->Close();
  batcher_->Close();
  if (usage_meter_) usage_meter_->Stop();
  if (sweeper_) sweeper_->Stop();
  store_.reset();
}

std::unique_ptr<StoreMonitor> ServiceStack::Watch(OnInspected on_inspected) {
  const auto report =
      [this, on_inspected = std::move(on_inspected)](const absl::StatusOr<StoreGauges>& gauges) {
        observer_.StoreInspected(gauges);
        if (connections_ != nullptr) observer_.ConnectionsChanged(connections_());
        on_inspected(gauges);
      };
  report(first_look_);
  auto monitor = std::make_unique<StoreMonitor>(*store_, StoreMonitor::Intervals(), report);
  monitor->Start();
  return monitor;
}

}  // namespace idempotency::internal
