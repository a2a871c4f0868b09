#include "client/downstream/parent_table.h"

#include <utility>

#include "client/downstream/parent_operation.h"
#include "core/absl_view.h"

namespace idempotency::internal {

ParentTable& ParentTable::Instance() {
  // Never destroyed: an execution may end after static destruction began.
  static ParentTable* const instance = std::make_unique<ParentTable>().release();
  return *instance;
}

void ParentTable::Enter(const std::string& id, std::weak_ptr<ParentOperation> parent) {
  MutexLock lock(mutex_);
  parents_[id] = std::move(parent);
  size_.store(parents_.size(), std::memory_order_release);
}

void ParentTable::Leave(const std::string& id) {
  if (empty()) return;
  MutexLock lock(mutex_);
  parents_.erase(id);
  size_.store(parents_.size(), std::memory_order_release);
}

std::shared_ptr<ParentOperation> ParentTable::Find(std::string_view id) {
  MutexLock lock(mutex_);
  const auto found = parents_.find(AbslView(id));
  return found == parents_.end() ? nullptr : found->second.lock();
}

}  // namespace idempotency::internal
