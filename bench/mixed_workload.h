#ifndef IDEMPOTENCY_BENCH_MIXED_WORKLOAD_H_
#define IDEMPOTENCY_BENCH_MIXED_WORKLOAD_H_

#include <cstdint>
#include <utility>

#include "bench/workload.h"

namespace idempotency::internal::bench {

// The load of a service on an unreliable network: of 100 calls 75 are first ones, 20 are retries of
// completed ones, and 5 have a duplicate that arrives while they run.
class MixedWorkload final : public Workload {
 public:
  // All must outlive it.
  MixedWorkload(Workload& first, Workload& replay, Workload& wait)
      : first_(first), replay_(replay), wait_(wait) {}

  void Start(std::uint64_t number, Done done) override {
    // Not in blocks: 37 and 100 have no divisor in common.
    const std::uint64_t turn = number * 37 % 100;
    Workload& chosen = turn < 75 ? first_ : turn < 95 ? replay_ : wait_;
    chosen.Start(number, std::move(done));
  }

 private:
  Workload& first_;
  Workload& replay_;
  Workload& wait_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_MIXED_WORKLOAD_H_
