#include "grpc_idempotency/client/retry_budget.h"

#include "client/token_bucket.h"

namespace idempotency {

using internal::TokenBucket;

RetryBudget::RetryBudget(const RetryBudgetOptions& options)
    : bucket_(std::make_unique<TokenBucket>(options)) {}

RetryBudget::~RetryBudget() = default;

void RetryBudget::AddCall() { bucket_->AddCall(); }

bool RetryBudget::TakeRetry() { return bucket_->TakeRetry(); }

RetryBudget& RetryBudget::Process() {
  // Never destroyed: calls may be retried while the process ends.
  static RetryBudget& budget = *std::make_unique<RetryBudget>().release();
  return budget;
}

}  // namespace idempotency
