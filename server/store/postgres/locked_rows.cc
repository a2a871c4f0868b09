#include "server/store/postgres/locked_rows.h"

namespace idempotency::internal {
namespace {

// Far more than one sweep or one forgotten transaction locks; beyond it rows are waited
// for again.
constexpr std::size_t kMaxRows = 64 * 1024;

}  // namespace

void PostgresLockedRows::Add(const std::vector<RecordId>& ids) {
  if (ids.empty()) return;
  const TimePoint now = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  // Found rarely, so expired entries are removed here.
  for (auto it = until_.begin(); it != until_.end();) {
    if (it->second <= now) {
      until_.erase(it++);
    } else {
      ++it;
    }
  }
  for (const RecordId& id : ids) {
    if (until_.size() < kMaxRows) until_.insert_or_assign(id, now + pause_);
  }
  size_.store(until_.size(), std::memory_order_relaxed);
}

bool PostgresLockedRows::Contains(const RecordId& id) const {
  if (size_.load(std::memory_order_relaxed) == 0) return false;
  MutexLock lock(mutex_);
  const auto found = until_.find(id);
  return found != until_.end() && std::chrono::steady_clock::now() < found->second;
}

}  // namespace idempotency::internal
