#include "grpc_idempotency/client/retry_canceller.h"

#include "client/retries/cancellable_tries.h"

namespace idempotency {

using internal::CancellableTries;

RetryCanceller::RetryCanceller() : tries_(std::make_unique<CancellableTries>()) {}

RetryCanceller::~RetryCanceller() = default;

void RetryCanceller::Cancel() { tries_->Cancel(); }

bool RetryCanceller::cancelled() const { return tries_->cancelled(); }

}  // namespace idempotency
