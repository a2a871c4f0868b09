#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_DRAWN_CALLS_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_DRAWN_CALLS_H_

#include <cstdint>
#include <random>
#include <string>

#include "absl/time/time.h"

#include "grpc_idempotency/record_key.h"

namespace idempotency::internal::testing {

// One logical operation: a call that a client repeats with the same key.
struct DrawnCall {
  RecordKey key;
  // The key as sent: UUIDs in either case.
  std::string sent_key;
  // Names the request: "a", sometimes "b" with a key that others use with "a".
  std::string request;
};

// Draws calls from a window of keys that moves with the time, the same one in every process: that
// is how processes share keys. A value type.
class DrawnCalls {
 public:
  // `epoch_ns` is the beginning of the run, by CLOCK_MONOTONIC, and `epoch` by the wall clock, for
  // the keys that contain their time.
  DrawnCalls(std::uint64_t seed, std::int64_t epoch_ns, absl::Time epoch)
      : seed_(seed), epoch_ns_(epoch_ns), epoch_(epoch) {}

  DrawnCall Draw(std::mt19937_64& random) const;

 private:
  DrawnCall OfNumber(std::uint64_t number) const;

  std::uint64_t seed_;
  std::int64_t epoch_ns_;
  absl::Time epoch_;
};

inline constexpr char kActMethod[] = "/idempotency.testing.Probe/Act";
inline constexpr char kLookMethod[] = "/idempotency.testing.Probe/Look";
inline constexpr char kTwinMethod[] = "/idempotency.testing.Twin/Act";

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_DRAWN_CALLS_H_
