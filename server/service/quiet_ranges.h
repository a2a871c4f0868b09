#ifndef IDEMPOTENCY_SERVER_SERVICE_QUIET_RANGES_H_
#define IDEMPOTENCY_SERVER_SERVICE_QUIET_RANGES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// The ranges of record ids of which a sweep knows that no record needs it before some time. They
// do not overlap. In places, nullopt is before the lowest id.
//
// Not thread-safe.
class QuietRanges {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // The records after the id that it begins after, up to `end`.
  struct Range {
    RecordId end;
    TimePoint until;
    // Live ones among them, at the last read.
    std::int64_t records = 0;
  };

  // Keeps at most `max_ranges`: with more it joins neighbours. A range with few records, up to
  // `join_up_to` with those of the range before it, joins that one at once.
  QuietRanges(std::size_t max_ranges, std::int64_t join_up_to)
      : max_ranges_(max_ranges), join_up_to_(join_up_to) {}

  // The first place at or after `place` behind which no range is quiet.
  std::optional<RecordId> Skip(std::optional<RecordId> place, TimePoint now) const;
  // `place`, or the beginning of the range in which it is.
  RecordId BeginOf(const RecordId& place) const;
  // The next end or beginning of a range behind `place`.
  std::optional<RecordId> NextPlace(const std::optional<RecordId>& place) const;
  // Records in all ranges.
  std::int64_t records() const;

  // `begin` is the id that a range begins after; the nil id for the lowest.
  void Add(const RecordId& begin, const Range& range);
  void Forget(const RecordId& begin) { ranges_.erase(begin); }

 private:
  // Joins ranges with their neighbours, so that about half as many remain.
  void JoinNeighbours();

  const std::size_t max_ranges_;
  const std::int64_t join_up_to_;
  std::map<RecordId, Range> ranges_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_QUIET_RANGES_H_
