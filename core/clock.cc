#include "core/clock.h"

#include "absl/time/clock.h"

namespace idempotency::internal {
namespace {

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  std::chrono::steady_clock::time_point Monotonic() const override {
    return std::chrono::steady_clock::now();
  }
};

}  // namespace

const Clock& Clock::System() {
  // Never destroyed: threads may read it while the process exits.
  static const SystemClock& clock = *new SystemClock;
  return clock;
}

}  // namespace idempotency::internal
