#ifndef IDEMPOTENCY_CLIENT_RETRIES_TOKEN_BUCKET_H_
#define IDEMPOTENCY_CLIENT_RETRIES_TOKEN_BUCKET_H_

#include <chrono>

#include "core/clock.h"
#include "core/mutex.h"
#include "grpc_idempotency/client/retry_budget.h"

namespace idempotency::internal {

// The counter of a RetryBudget. Thread-safe.
class TokenBucket {
 public:
  // `clock` must outlive this.
  explicit TokenBucket(const RetryBudgetOptions& options, const Clock& clock = Clock::System());

  // As in RetryBudget.
  void AddCall();
  bool TakeRetry();

 private:
  void AddElapsed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(double retries) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RetryBudgetOptions options_;
  const Clock& clock_;
  Mutex mutex_;
  double left_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point counted_until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_RETRIES_TOKEN_BUCKET_H_
