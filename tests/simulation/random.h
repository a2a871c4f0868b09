#ifndef IDEMPOTENCY_TESTS_SIMULATION_RANDOM_H_
#define IDEMPOTENCY_TESTS_SIMULATION_RANDOM_H_

#include <cstddef>
#include <cstdint>

namespace idempotency::internal::simulation {

// A small generator without the standard library's (splitmix64), so that a seed means the same run
// with every standard library. Not thread-safe.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    return mixed ^ (mixed >> 31);
  }

  // From 0 up to `count` - 1; `count` is not 0.
  std::uint64_t Below(std::uint64_t count) { return Next() % count; }
  // From `low` to `high`, both included.
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(Below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool Chance(double probability) {
    return static_cast<double>(Next() >> 11) * 0x1.0p-53 < probability;
  }

 private:
  std::uint64_t state_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_RANDOM_H_
