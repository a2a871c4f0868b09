#include "grpc_idempotency/client/retry_stopper.h"

#include "client/stoppable_tries.h"

namespace idempotency {

using internal::StoppableTries;

RetryStopper::RetryStopper() : tries_(std::make_unique<StoppableTries>()) {}

RetryStopper::~RetryStopper() = default;

void RetryStopper::Stop() { tries_->Stop(); }

bool RetryStopper::stopped() const { return tries_->stopped(); }

}  // namespace idempotency
