#include "bench/micro/batch_loop.h"

#include "bench/numbered_keys.h"

namespace idempotency::internal::bench {
namespace {

constexpr std::size_t kOperations = 64;
constexpr std::size_t kBytesOfOne = 1024;
constexpr std::size_t kMaxBytes = 4 * 1024 * 1024;

}  // namespace

BatchLoop::BatchLoop() {
  const NumberedKeys keys({/*seed=*/1, absl::FromUnixSeconds(1700000000), /*hashed_share=*/0});
  for (std::size_t i = 0; i < kOperations; ++i) ids_.push_back(*Uuid::Parse(keys.At(i)));
}

void BatchLoop::Iterate() {
  for (const RecordId& id : ids_) queue_.Push("payments", id, Item{{}, id});
  Use(queue_.Take(
      {kOperations, kMaxBytes}, [](const Item&) { return kBytesOfOne; },
      [](const Item&) { return false; }, overdue_, [](const Item&, const Item&) { return false; }));
}

}  // namespace idempotency::internal::bench
