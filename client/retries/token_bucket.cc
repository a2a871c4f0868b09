#include "client/retries/token_bucket.h"

#include <algorithm>

namespace idempotency::internal {
namespace {

RetryBudgetOptions WithoutNegatives(RetryBudgetOptions options) {
  options.retries_per_call = std::max(0.0, options.retries_per_call);
  options.retries_per_second = std::max(0.0, options.retries_per_second);
  options.max_tokens = std::max(0.0, options.max_tokens);
  return options;
}

}  // namespace

TokenBucket::TokenBucket(const RetryBudgetOptions& options, const Clock& clock)
    : options_(WithoutNegatives(options)),
      clock_(clock),
      left_(options_.max_tokens),
      counted_until_(clock.Monotonic()) {}

void TokenBucket::AddCall() {
  MutexLock lock(mutex_);
  Add(options_.retries_per_call);
}

bool TokenBucket::TakeRetry() {
  MutexLock lock(mutex_);
  AddElapsed();
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

void TokenBucket::AddElapsed() {
  const auto now = clock_.Monotonic();
  Add(std::chrono::duration<double>(now - counted_until_).count() * options_.retries_per_second);
  counted_until_ = now;
}

void TokenBucket::Add(double retries) { left_ = std::min(options_.max_tokens, left_ + retries); }

}  // namespace idempotency::internal
