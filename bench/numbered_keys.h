#ifndef IDEMPOTENCY_BENCH_NUMBERED_KEYS_H_
#define IDEMPOTENCY_BENCH_NUMBERED_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal::bench {

// Idempotency keys by number: the same seed gives the same keys again, so that one process can
// replay the calls that another one completed. Computed by arithmetic alone: a client's cost,
// without that of a good random source. Thread-safe.
class NumberedKeys {
 public:
  struct Options {
    std::uint64_t seed = 0;
    // The time in the first key; kKeysPerMilli later ones share a millisecond. nullopt: each has
    // the time at which it was requested, as fresh keys have, and therefore differs the next time.
    std::optional<absl::Time> first;
    // The share of UUIDv4 instead of UUIDv7 keys: 0 to 1.
    double hashed_share = 0;
  };
  static constexpr std::uint64_t kKeysPerMilli = 20;

  explicit NumberedKeys(const Options& options) : options_(options) {}

  std::string At(std::uint64_t number) const;
  // For request tokens: a different UUID for each number.
  std::string TokenAt(std::uint64_t number) const;

 private:
  absl::Time TimeAt(std::uint64_t number) const;

  const Options options_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_NUMBERED_KEYS_H_
