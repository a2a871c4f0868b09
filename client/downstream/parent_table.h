#ifndef IDEMPOTENCY_CLIENT_DOWNSTREAM_PARENT_TABLE_H_
#define IDEMPOTENCY_CLIENT_DOWNSTREAM_PARENT_TABLE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

#include "core/mutex.h"

namespace idempotency::internal {

class ParentOperation;

// The operations of this process that have attached calls and still run, by
// the id that those calls carry. Thread-safe.
class ParentTable {
 public:
  static ParentTable& Instance();

  void Enter(const std::string& id, std::weak_ptr<ParentOperation> parent);
  // No effect for one that was never entered.
  void Leave(const std::string& id);
  // A call was to be attached, and is marked as one that must not be sent.
  void NoteFailedAttach() { attach_failed_.store(true, std::memory_order_release); }
  // nullptr once it has ended.
  std::shared_ptr<ParentOperation> Find(std::string_view id);

  // True: no call of this process is attached, or carries the mark of an Attach that failed. Costs
  // almost nothing, so that programs that only call do not pay for the servers' feature.
  bool empty() const {
    return size_.load(std::memory_order_acquire) == 0 &&
           !attach_failed_.load(std::memory_order_acquire);
  }

 private:
  Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<ParentOperation>> parents_ ABSL_GUARDED_BY(mutex_);
  std::atomic<std::size_t> size_{0};
  // Never reset: the call may be made at any time.
  std::atomic<bool> attach_failed_{false};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_DOWNSTREAM_PARENT_TABLE_H_
