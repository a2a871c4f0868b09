#ifndef IDEMPOTENCY_TESTS_CHAOS_PROXY_LINK_FAULTS_H_
#define IDEMPOTENCY_TESTS_CHAOS_PROXY_LINK_FAULTS_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "tests/chaos/proxy/byte_trigger.h"

namespace idempotency::internal::chaos {

// kUp: from the caller to the target. kDown: back.
enum class Direction { kUp = 0, kDown = 1 };
constexpr std::array<Direction, 2> kBothDirections = {Direction::kUp, Direction::kDown};

constexpr Direction Opposite(Direction direction) {
  return direction == Direction::kUp ? Direction::kDown : Direction::kUp;
}

// One of something for each direction.
template <typename T>
class PerDirection {
 public:
  T& operator[](Direction direction) { return values_[static_cast<std::size_t>(direction)]; }
  const T& operator[](Direction direction) const {
    return values_[static_cast<std::size_t>(direction)];
  }

 private:
  std::array<T, 2> values_{};
};

// Cuts a connection at a place in its stream.
struct CutRule {
  Direction direction = Direction::kUp;
  // Copied for each connection, and fed with that direction's bytes.
  ByteTrigger trigger = ByteTrigger::AfterBytes(1);
  // False: cut at the place. The bytes before it arrive, no others do.
  // True: all of this direction continues, the answer is swallowed, and then the connection is cut.
  bool forward = false;
  // With `forward`: the answer has arrived when it contains this text (empty: with its first byte)
  // ...
  std::string answer;
  // ... or, if this is set, when this time is over.
  std::optional<std::chrono::milliseconds> hold;
  // The number of connections that are cut before the rule ends.
  int times = 1;
};

// The active faults of a link. A value.
struct LinkFaults {
  bool refuse = false;
  PerDirection<bool> stalled;
  PerDirection<bool> vanish;
  std::chrono::milliseconds delay{0};
  std::chrono::milliseconds jitter{0};
  std::optional<CutRule> cut;
};

// The counts of a link so far.
struct LinkStats {
  std::uint64_t accepted = 0;
  std::uint64_t unreachable = 0;          // the target could not be connected to
  std::uint64_t cut = 0;                  // connections that ended with a reset
  std::uint64_t fired = 0;                // connections, by rules
  std::uint64_t delayed_ms = 0;           // the delays of all pieces together
  PerDirection<std::uint64_t> forwarded;  // bytes
  PerDirection<std::uint64_t> lost;       // bytes that were discarded or swallowed
};

// The common data of the connections of a link. Outlives them. Thread-compatible.
struct LinkState {
  LinkFaults faults;
  LinkStats stats;
  // Grows with every new rule, so that connections restart it.
  std::uint64_t rule_number = 0;
  std::mt19937_64 random;
};

}  // namespace idempotency::internal::chaos

#endif  // IDEMPOTENCY_TESTS_CHAOS_PROXY_LINK_FAULTS_H_
