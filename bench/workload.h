#ifndef IDEMPOTENCY_BENCH_WORKLOAD_H_
#define IDEMPOTENCY_BENCH_WORKLOAD_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace idempotency::internal::bench {

// One kind of work that a loop repeats.
//
// Thread-safe: pieces are started on any thread and overlap.
class Workload {
 public:
  // The end of a piece. Called exactly once, on any thread, possibly before Start() returns. Two
  // words of captures do not allocate.
  using Done = std::function<void(const absl::Status&)>;

  virtual ~Workload() = default;
  // Does the piece with this number, counted from 0. Does not block. The
  // workload outlives the piece.
  virtual void Start(std::uint64_t number, Done done) = 0;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_WORKLOAD_H_
