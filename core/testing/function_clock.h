#ifndef IDEMPOTENCY_CORE_TESTING_FUNCTION_CLOCK_H_
#define IDEMPOTENCY_CORE_TESTING_FUNCTION_CLOCK_H_

#include <chrono>
#include <functional>
#include <utility>

#include "absl/time/time.h"

#include "core/clock.h"

namespace idempotency::internal {

// Each time is read by calling a function of the test. As thread-safe as these are.
class FunctionClock final : public Clock {
 public:
  using WallTime = std::function<absl::Time()>;
  using MonotonicTime = std::function<std::chrono::steady_clock::time_point()>;

  // By default the monotonic time stands still.
  explicit FunctionClock(
      WallTime now, MonotonicTime monotonic = [] { return MonotonicTime::result_type(); })
      : now_(std::move(now)), monotonic_(std::move(monotonic)) {}

  absl::Time Now() const override { return now_(); }
  std::chrono::steady_clock::time_point Monotonic() const override { return monotonic_(); }

 private:
  const WallTime now_;
  const MonotonicTime monotonic_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_TESTING_FUNCTION_CLOCK_H_
