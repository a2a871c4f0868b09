#include "bench/replay_workload.h"

#include <utility>

namespace idempotency::internal::bench {
namespace {

// A prime: every key is used once before the first is used again, unless their number is a multiple
// of it.
constexpr std::uint64_t kStride = 2654435761;

}  // namespace

void ReplayWorkload::Start(std::uint64_t number, Done done) {
  const v1::ReserveRequest request = requests_.Reserve(number % keys_ * kStride % keys_);
  connection_.Reserve(
      request, requests_.Deadline(),
      [this, done = std::move(done)](const auto& answer) { done(requests_.CheckReplay(answer)); });
}

}  // namespace idempotency::internal::bench
