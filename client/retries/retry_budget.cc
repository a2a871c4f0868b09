#include "grpc_idempotency/client/retry_budget.h"

#include <string>

#include "absl/container/node_hash_map.h"

#include "client/retries/token_bucket.h"
#include "core/absl_view.h"
#include "core/mutex.h"

namespace idempotency {

using internal::AbslView;
using internal::Mutex;
using internal::MutexLock;
using internal::TokenBucket;

namespace {

// One budget for each service that the process calls. Thread-safe.
class BudgetsByService {
 public:
  RetryBudget& Find(std::string_view service) {
    MutexLock lock(mutex_);
    // Names may come from elsewhere, and none is ever removed.
    if (budgets_.size() >= RetryBudget::kMaxServices && !budgets_.contains(AbslView(service))) {
      service = "";
    }
    return budgets_[AbslView(service)];
  }

 private:
  Mutex mutex_;
  absl::node_hash_map<std::string, RetryBudget> budgets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

RetryBudget::RetryBudget(const RetryBudgetOptions& options)
    : bucket_(std::make_unique<TokenBucket>(options)) {}

RetryBudget::~RetryBudget() = default;

void RetryBudget::AddCall() { bucket_->AddCall(); }

bool RetryBudget::TakeRetry() { return bucket_->TakeRetry(); }

RetryBudget& RetryBudget::ForService(std::string_view service) {
  // Never destroyed: calls may be retried while the process ends.
  static BudgetsByService& budgets = *std::make_unique<BudgetsByService>().release();
  return budgets.Find(service);
}

}  // namespace idempotency
