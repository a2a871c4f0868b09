#ifndef IDEMPOTENCY_CORE_BACKOFF_H_
#define IDEMPOTENCY_CORE_BACKOFF_H_

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/random/random.h"
#include "absl/time/time.h"

namespace idempotency::internal {

// Exponential backoff with jitter, for repeats inside a process: the bound doubles from `first` to
// `longest` with each pause, and a pause is a random part of it, from half to all, so that
// processes that failed at the same time do not return at the same time.
//
// Thread-compatible.
class Backoff {
 public:
  // Tests give `random` a seed.
  Backoff(absl::Duration first, absl::Duration longest,
          std::optional<absl::InsecureBitGen> random = std::nullopt)
      : random_(std::move(random)),
        first_(std::min(first, longest)),
        longest_(longest),
        bound_(first_) {}

  absl::Duration Next() {
    // Not before: it takes longer than all the rest, and most operations are not repeated.
    if (!random_.has_value()) random_.emplace();
    const absl::Duration bound = bound_;
    bound_ = std::min(bound_ * 2, longest_);
    return bound * absl::Uniform(*random_, 0.5, 1.0);
  }

  // The next pause is one of the first: after a success.
  void Reset() { bound_ = first_; }

 private:
  std::optional<absl::InsecureBitGen> random_;
  const absl::Duration first_;
  const absl::Duration longest_;
  absl::Duration bound_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_BACKOFF_H_
