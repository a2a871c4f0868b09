#include "client/retry_budget.h"

#include <algorithm>
#include <memory>

namespace idempotency {
namespace {

RetryBudgetOptions WithoutNegatives(RetryBudgetOptions options) {
  options.retries_per_call = std::max(0.0, options.retries_per_call);
  options.retries_per_second = std::max(0.0, options.retries_per_second);
  options.most = std::max(0.0, options.most);
  return options;
}

}  // namespace

RetryBudget::RetryBudget(const RetryBudgetOptions& options)
    : options_(WithoutNegatives(options)),
      left_(options_.most),
      counted_until_(options_.clock->Monotonic()) {}

void RetryBudget::AddCall() {
  MutexLock lock(mutex_);
  Add(options_.retries_per_call);
}

bool RetryBudget::TakeRetry() {
  MutexLock lock(mutex_);
  AddElapsed();
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

RetryBudget& RetryBudget::Process() {
  // Kept for ever: calls may be retried while the process ends.
  static RetryBudget& budget = *std::make_unique<RetryBudget>().release();
  return budget;
}

void RetryBudget::AddElapsed() {
  const auto now = options_.clock->Monotonic();
  Add(std::chrono::duration<double>(now - counted_until_).count() * options_.retries_per_second);
  counted_until_ = now;
}

void RetryBudget::Add(double retries) { left_ = std::min(options_.most, left_ + retries); }

}  // namespace idempotency
