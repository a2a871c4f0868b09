#include "server/embedded_service.h"

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <utility>

#include "core/limits.h"
#include "server/store_address.h"

namespace idempotency {

absl::StatusOr<std::unique_ptr<EmbeddedService>> EmbeddedService::Open(
    const std::string& store, const EmbeddedOptions& options) {
  const absl::StatusOr<StoreAddress> address = StoreAddress::Parse(store);
  if (!address.ok()) return address.status();
  if (absl::Status valid = ValidateServiceOptions(options); !valid.ok()) return valid;
  // Private constructor.
  std::unique_ptr<EmbeddedService> service(new EmbeddedService(options));
  if (absl::Status started = service->StartParts(*address); !started.ok()) return started;
  return service;
}

EmbeddedService::EmbeddedService(const EmbeddedOptions& options) : options_(options) {}

absl::Status EmbeddedService::StartParts(const StoreAddress& store) {
  auto stack = ServiceStack::Start(store, options_,
                                   options_.migrate ? SchemaPolicy::kMigrate : SchemaPolicy::kCheck,
                                   options_.observer != nullptr ? *options_.observer : nobody_);
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

EmbeddedService::~EmbeddedService() {
  if (server_ == nullptr) return;
  stack_->StopWaiting();
  server_->Shutdown(std::chrono::system_clock::now() +
                    absl::ToChronoNanoseconds(options_.drain_timeout));
  server_->Wait();
  // The rest is the members' destruction, in the reverse order.
}

absl::Status EmbeddedService::store_status() const {
  MutexLock lock(mutex_);
  return store_status_;
}

}  // namespace idempotency
