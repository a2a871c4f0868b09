#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_PLACES_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_PLACES_H_

#include <cstddef>
#include <memory>

namespace idempotency::internal {

// A fixed number of places for tasks of one kind. Thread-safe.
class Places {
 public:
  explicit Places(std::size_t count);

  // A place, free again when the last copy is destroyed; nullptr if all are taken. Keeps the
  // count alive, so that the Places may be destroyed first.
  using Place = std::shared_ptr<void>;
  Place TryTake() const;

 private:
  struct Count;
  const std::shared_ptr<Count> count_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_PLACES_H_
