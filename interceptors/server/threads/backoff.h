#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_BACKOFF_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_BACKOFF_H_

#include <algorithm>

#include "absl/random/random.h"
#include "absl/time/time.h"

namespace idempotency::internal {

// The pause before each repeat: doubles from `first` to `longest`, with a random half, so that
// guards that failed at the same time do not return at the same time. Thread-compatible.
class Backoff {
 public:
  Backoff(absl::Duration first, absl::Duration longest) : next_(first), longest_(longest) {}

  absl::Duration Next() {
    const absl::Duration full = next_;
    next_ = std::min(next_ * 2, longest_);
    return full * absl::Uniform(random_, 0.5, 1.0);
  }

 private:
  absl::InsecureBitGen random_;
  absl::Duration next_;
  const absl::Duration longest_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_BACKOFF_H_
