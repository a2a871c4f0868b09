#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_UNGUARDED_RUN_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_UNGUARDED_RUN_H_

#include <atomic>

namespace idempotency::internal {

// Whether a call without a verdict runs its handler unguarded (MethodPolicy::fail_open). The
// request for its reservation is pursued meanwhile: a grant that arrives then must not be released
// as if nothing had happened. Thread-safe.
class UnguardedRun {
 public:
  // The handler does not run.
  void RuleOut() { possible_.store(false, std::memory_order_release); }
  // True from the beginning: a grant may arrive before it is decided.
  bool possible() const { return possible_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> possible_{true};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_UNGUARDED_RUN_H_
