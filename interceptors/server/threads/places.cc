#include "interceptors/server/threads/places.h"

#include <atomic>
#include <utility>

namespace idempotency::internal {

struct Places::Count {
  explicit Count(std::size_t count) : free(count) {}
  std::atomic<std::size_t> free;
};

Places::Places(std::size_t count) : count_(std::make_shared<Count>(count)) {}

Places::Place Places::TryTake() const {
  std::size_t free = count_->free.load();
  do {
    if (free == 0) return nullptr;
  } while (!count_->free.compare_exchange_weak(free, free - 1));
  // The count itself, and the action when the place is released.
  return Place(count_.get(), [count = count_](void*) { ++count->free; });
}

}  // namespace idempotency::internal
