#include "grpc_idempotency/embedded/embedded_service.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <utility>

#include "absl/base/thread_annotations.h"

#include "core/mutex.h"
#include "embedded/direct_connection.h"
#include "grpc_idempotency/embedded/service_metrics.h"
#include "grpc_idempotency/limits.h"
#include "server/observability/observer.h"
#include "server/service/service_stack.h"
#include "server/service/store_address.h"
#include "server/service/store_monitor.h"

namespace idempotency {

using internal::DirectConnection;
using internal::Mutex;
using internal::MutexLock;
using internal::Observer;
using internal::SchemaPolicy;
using internal::ServiceStack;
using internal::StoreAddress;
using internal::StoreGauges;
using internal::StoreMonitor;

class EmbeddedService::Backend {
 public:
  Backend() = default;
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  absl::Status Start(const StoreAddress& store, const EmbeddedOptions& options);
  // Everything but the gRPC server, which continues to refuse calls.
  void Close();

  internal::Operations& operations() { return stack_->operations(); }
  grpc::Channel* channel() const { return channel_.get(); }
  absl::Status store_status() const {
    MutexLock lock(mutex_);
    return store_status_;
  }

 private:
  Observer nobody_;
  mutable Mutex mutex_;
  absl::Status store_status_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<ServiceStack> stack_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<StoreMonitor> monitor_;
};

absl::Status EmbeddedService::Backend::Start(const StoreAddress& store,
                                             const EmbeddedOptions& options) {
  auto stack = ServiceStack::Start(
      store, options, options.migrate ? SchemaPolicy::kMigrate : SchemaPolicy::kCheck,
      options.metrics != nullptr ? options.metrics->observer() : nobody_, {});
  if (!stack.ok()) return stack.status();
  stack_ = *std::move(stack);

  grpc::ServerBuilder builder;
  stack_->Register(builder);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC cannot start a server in this process");
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(limits::kMaxMessageBytes));
  channel_ = server_->InProcessChannel(arguments);

  monitor_ = stack_->Watch([this](const absl::StatusOr<StoreGauges>& gauges) {
    MutexLock lock(mutex_);
    store_status_ = gauges.status();
  });
  return absl::OkStatus();
}

void EmbeddedService::Backend::Close() {
  monitor_.reset();
  stack_->Close();
}

EmbeddedService::Backend::~Backend() {
  channel_.reset();
  if (server_ == nullptr) return;
  // No call can arrive any more, and every call was answered.
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

absl::StatusOr<std::unique_ptr<EmbeddedService>> EmbeddedService::Open(
    const std::string& store, const EmbeddedOptions& options) {
  absl::StatusOr<StoreAddress> address = StoreAddress::Parse(store);
  if (!address.ok()) return address.status();
  if (absl::Status valid = ValidateServiceOptions(options); !valid.ok()) return valid;
  if (options.accept_empty && address->kind != StoreAddress::Kind::kRedis) {
    return absl::InvalidArgumentError(
        "accept_empty is for Redis: redis://...; a Postgres schema needs migrate");
  }
  address->accept_empty = options.accept_empty;
  auto backend = std::make_shared<Backend>();
  if (absl::Status started = backend->Start(*address, options); !started.ok()) return started;
  // Private constructor.
  return std::unique_ptr<EmbeddedService>(new EmbeddedService(std::move(backend)));
}

EmbeddedService::EmbeddedService(std::shared_ptr<Backend> backend)
    : backend_(std::move(backend)), channel_(backend_, backend_->channel()) {}

EmbeddedService::~EmbeddedService() { backend_->Close(); }

std::unique_ptr<Connection> EmbeddedService::MakeConnection() const {
  return std::make_unique<DirectConnection>(backend_, backend_->operations());
}

absl::Status EmbeddedService::store_status() const { return backend_->store_status(); }

}  // namespace idempotency
