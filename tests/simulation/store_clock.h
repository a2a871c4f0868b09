#ifndef IDEMPOTENCY_TESTS_SIMULATION_STORE_CLOCK_H_
#define IDEMPOTENCY_TESTS_SIMULATION_STORE_CLOCK_H_

#include <algorithm>
#include <chrono>

#include "core/clock.h"
#include "tests/simulation/scheduler.h"

namespace idempotency::internal::simulation {

// The store's, for every reader: it drifts and jumps by itself. No ManualClock: it follows the
// scheduler's time.
class StoreClock final : public Clock {
 public:
  StoreClock(const Scheduler& scheduler, std::int64_t drift_ppm)
      : scheduler_(scheduler), store_("store", drift_ppm, 0) {}

  absl::Time Now() const override { return absl::FromUnixNanos(store_.Wall(scheduler_.now())); }
  std::chrono::steady_clock::time_point Monotonic() const override {
    return std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(store_.Monotonic(scheduler_.now())));
  }
  void Jump(Nanos by) {
    store_.JumpWall(by);
    jumped_ += by;
    furthest_ = std::max(furthest_, jumped_);
  }
  // As far ahead as it ever was, so that every lease ends when it should.
  void CatchUp() { Jump(furthest_ - jumped_); }

 private:
  const Scheduler& scheduler_;
  Process store_;
  Nanos jumped_ = 0;
  Nanos furthest_ = 0;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_STORE_CLOCK_H_
