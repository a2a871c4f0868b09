#ifndef IDEMPOTENCY_SERVER_SEALING_KEY_RING_SOURCE_H_
#define IDEMPOTENCY_SERVER_SEALING_KEY_RING_SOURCE_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"

#include "core/mutex.h"
#include "server/sealing/key_ring.h"

namespace idempotency::internal {

// The key ring in use, which is replaced while the store works. A call of the store uses one ring
// from its beginning to its end. Thread-safe.
class KeyRingSource {
 public:
  // `ring` is not null.
  explicit KeyRingSource(std::shared_ptr<const KeyRing> ring) : ring_(std::move(ring)) {}

  std::shared_ptr<const KeyRing> Current() const {
    MutexLock lock(mutex_);
    return ring_;
  }
  void Replace(std::shared_ptr<const KeyRing> ring) {
    MutexLock lock(mutex_);
    ring_ = std::move(ring);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const KeyRing> ring_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_KEY_RING_SOURCE_H_
