#ifndef GRPC_IDEMPOTENCY_CLIENT_RETRY_BUDGET_H_
#define GRPC_IDEMPOTENCY_CLIENT_RETRY_BUDGET_H_

#include <cstddef>
#include <memory>
#include <string_view>

namespace idempotency {

namespace internal {
class TokenBucket;
}  // namespace internal

// Negative numbers count as 0.
struct RetryBudgetOptions {
  // The tokens that each call adds by its first try. 0.2: a failing server gets a fifth more
  // load by retries, not a multiple. With fewer a busy client would give up during an ordinary
  // restart; also Finagle's default.
  double retries_per_call = 0.2;
  // The tokens that each second adds, so that a client with few calls can outlast a deployment:
  // with pauses around 5 s, 10 a second keep some 50 calls retrying indefinitely.
  double retries_per_second = 10;
  // The maximum number of tokens, and the initial one: 10 s of the above, for the moment in which
  // every call fails at once.
  double max_tokens = 100;
};

// Bounds the retries of many calls together: a token bucket that calls and time fill, and that
// retries empty. Without a bound, a server that is slow because it is overloaded gets every
// call several times, and does not recover. The calls to one service share one budget, across
// methods and channels: an overloaded service then does not take the retries of another.
//
// Thread-safe.
class RetryBudget {
 public:
  explicit RetryBudget(const RetryBudgetOptions& options = {});
  ~RetryBudget();
  RetryBudget(const RetryBudget&) = delete;
  RetryBudget& operator=(const RetryBudget&) = delete;

  // A first try.
  void AddCall();
  // True: one retry may be made now; its token was taken. False: no token is left.
  bool TakeRetry();

  // The budget that the calls of this process to `service` ("payments.v1.Payments") share,
  // with the default options. Never destroyed. "" is the budget of calls that name no
  // service, and of further names after kMaxServices.
  static RetryBudget& ForService(std::string_view service);
  static constexpr std::size_t kMaxServices = 1024;

 private:
  const std::unique_ptr<internal::TokenBucket> bucket_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_RETRY_BUDGET_H_
