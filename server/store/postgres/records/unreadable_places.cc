#include "server/store/postgres/records/unreadable_places.h"

#include <iterator>

namespace idempotency::internal {

std::optional<RecordPlace> UnreadablePlaces::FirstAfter(const WalkRange& range,
                                                        const RecordPlace& after) const {
  if (size_.load(std::memory_order_relaxed) == 0) return std::nullopt;
  MutexLock lock(mutex_);
  const auto found = due_.upper_bound(PlaceOf(range, after));
  if (found == due_.end()) return std::nullopt;
  const auto& [order, first_part, scope, id] = found->first;
  if (order != range.order || first_part != range.first_part) return std::nullopt;
  return RecordPlace{scope, id};
}

bool UnreadablePlaces::IsDue(const WalkRange& range, const RecordPlace& place) const {
  MutexLock lock(mutex_);
  const auto found = due_.find(PlaceOf(range, place));
  return found == due_.end() || found->second <= clock_.Monotonic();
}

void UnreadablePlaces::Add(const WalkRange& range, const RecordPlace& place) {
  const TimePoint now = clock_.Monotonic();
  MutexLock lock(mutex_);
  const Place key = PlaceOf(range, place);
  // No walk came here for long.
  if (due_.size() >= kMaxPlaces && due_.count(key) == 0) RemoveDue(now);
  if (due_.size() < kMaxPlaces || due_.count(key) > 0) due_.insert_or_assign(key, now + pause_);
  size_.store(due_.size(), std::memory_order_relaxed);
}

void UnreadablePlaces::RemoveDue(TimePoint now) {
  for (auto it = due_.begin(); it != due_.end();) {
    it = it->second <= now ? due_.erase(it) : std::next(it);
  }
}

void UnreadablePlaces::Remove(const WalkRange& range, const RecordPlace& place) {
  if (size_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(mutex_);
  due_.erase(PlaceOf(range, place));
  size_.store(due_.size(), std::memory_order_relaxed);
}

}  // namespace idempotency::internal
