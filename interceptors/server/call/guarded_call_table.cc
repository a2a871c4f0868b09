#include "interceptors/server/call/guarded_call_table.h"

#include <utility>

#include "absl/hash/hash.h"

namespace idempotency::internal {

GuardedCallTable& GuardedCallTable::Instance() {
  // Never destroyed: an interceptor may end after static destruction has started.
  static GuardedCallTable* const instance = std::make_unique<GuardedCallTable>().release();
  return *instance;
}

GuardedCallTable::Shard& GuardedCallTable::ShardOf(const grpc::ServerContextBase* context) {
  return shards_[absl::HashOf(context) % shards_.size()];
}

void GuardedCallTable::Enter(const grpc::ServerContextBase* context,
                             std::shared_ptr<GuardedCall> call) {
  Shard& shard = ShardOf(context);
  MutexLock lock(shard.mutex);
  // The old entry is destroyed after the lock is released, with the argument.
  shard.calls[context].swap(call);
}

void GuardedCallTable::Leave(const grpc::ServerContextBase* context, const GuardedCall* call) {
  std::shared_ptr<GuardedCall> dropped;
  Shard& shard = ShardOf(context);
  MutexLock lock(shard.mutex);
  const auto found = shard.calls.find(context);
  if (found == shard.calls.end() || found->second.get() != call) return;
  dropped = std::move(found->second);
  shard.calls.erase(found);
}

std::shared_ptr<GuardedCall> GuardedCallTable::Find(const grpc::ServerContextBase* context) {
  Shard& shard = ShardOf(context);
  MutexLock lock(shard.mutex);
  const auto found = shard.calls.find(context);
  return found == shard.calls.end() ? nullptr : found->second;
}

std::size_t GuardedCallTable::size() {
  std::size_t size = 0;
  for (Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    size += shard.calls.size();
  }
  return size;
}

}  // namespace idempotency::internal
