#include "server/service/quiet_ranges.h"

#include <algorithm>
#include <iterator>

namespace idempotency::internal {

std::optional<RecordId> QuietRanges::Skip(std::optional<RecordId> place, TimePoint now) const {
  for (auto it = ranges_.find(place.value_or(RecordId()));
       it != ranges_.end() && now < it->second.until; it = ranges_.find(it->second.end)) {
    place = it->second.end;
  }
  return place;
}

RecordId QuietRanges::BeginOf(const RecordId& place) const {
  const auto behind = ranges_.upper_bound(place);
  if (behind == ranges_.begin()) return place;
  const auto& [begin, range] = *std::prev(behind);
  return place < range.end ? begin : place;
}

std::optional<RecordId> QuietRanges::NextPlace(const std::optional<RecordId>& place) const {
  const RecordId after = place.value_or(RecordId());
  if (const auto same = ranges_.find(after); same != ranges_.end()) return same->second.end;
  const auto next = ranges_.upper_bound(after);
  return next == ranges_.end() ? std::nullopt : std::optional<RecordId>(next->first);
}

std::int64_t QuietRanges::records() const {
  std::int64_t records = 0;
  for (const auto& [begin, range] : ranges_) records += range.records;
  return records;
}

void QuietRanges::Add(const RecordId& begin, const Range& range) {
  // The rest of a range joins the one before.
  const auto behind = ranges_.lower_bound(begin);
  if (behind != ranges_.begin()) {
    Range& before = std::prev(behind)->second;
    if (before.end == begin && before.records + range.records <= join_up_to_) {
      before.end = range.end;
      before.until = std::min(before.until, range.until);
      before.records += range.records;
      return;
    }
  }
  if (ranges_.size() >= max_ranges_) JoinNeighbours();
  if (ranges_.size() < max_ranges_) ranges_.emplace(begin, range);
}

void QuietRanges::JoinNeighbours() {
  for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
    const auto next = std::next(it);
    if (next == ranges_.end() || it->second.end != next->first) continue;
    it->second.end = next->second.end;
    it->second.until = std::min(it->second.until, next->second.until);
    it->second.records += next->second.records;
    ranges_.erase(next);
  }
}

}  // namespace idempotency::internal
