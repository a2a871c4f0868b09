#include "tests/integration/memory_service.h"

#include "grpc_idempotency/limits.h"

namespace idempotency::internal::testing {
namespace {

BatcherOptions Batching(std::size_t max_queued, const Clock& clock) {
  BatcherOptions options;
  options.threads = 2;
  options.max_queued = max_queued;
  options.clock = &clock;
  return options;
}

}  // namespace

MemoryService::MemoryService(std::size_t max_queued, const AccessControl* access, Tenants* tenants)
    : batcher_(gate_, observer_, Batching(max_queued, clock_)),
      service_(batcher_, waiters_, observer_, ServiceOn(clock_, access, tenants)) {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kMaxMessageBytes));
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
}

MemoryService::~MemoryService() {
  gate_.Open();
  waiters_.Close();
  server_->Shutdown();
  server_->Wait();
  batcher_.Close();
}

std::shared_ptr<grpc::Channel> MemoryService::channel() {
  return server_->InProcessChannel(grpc::ChannelArguments());
}

void MemoryService::EndWaitsFor(const RecordId& id) {
  clock_.Advance(limits::kMaxWait);
  // A read that finds no change, after which the waiters read their clock.
  waiters_.OnRecordChanged(id);
}

InFlightWaitersOptions MemoryService::On(const Clock& clock) {
  InFlightWaitersOptions options;
  options.clock = &clock;
  return options;
}

IdempotencyServiceOptions MemoryService::ServiceOn(const Clock& clock, const AccessControl* access,
                                                   Tenants* tenants) {
  IdempotencyServiceOptions options;
  options.clock = &clock;
  options.access = access;
  options.tenants = tenants;
  return options;
}

}  // namespace idempotency::internal::testing
