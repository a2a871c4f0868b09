#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_UNREADABLE_PLACES_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_UNREADABLE_PLACES_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "server/store/admin_operations.h"

namespace idempotency::internal {

// A range of records, in the order in which walks pass them.
struct WalkRange {
  enum class Order {
    kScopes,    // of a namespace: by scope and id, also in the walks through one scope
    kUnknown,   // the UNKNOWN ones of a namespace, by id
    kChildren,  // those whose parent has a key, by id
    kSweep,     // all, in the order of the sweep
  };
  Order order = Order::kSweep;
  // The namespace, or the parent's key.
  std::string first_part;
};

// Where walks found rows that the server cannot read. The search for one fails more than a hundred
// statements, each a line of the server's log: a later walk passes the places that are known.
//
// Thread-safe; free of a lock while there are none.
class UnreadablePlaces {
 public:
  // Many pages' worth. Beyond it rows are searched for in each walk.
  static constexpr std::size_t kMaxPlaces = 4096;

  // `pause` is how long a place is passed without a look, so that a row that can be read again is
  // found. `clock` outlives this.
  explicit UnreadablePlaces(absl::Duration pause, const Clock& clock = Clock::System())
      : pause_(absl::ToChronoNanoseconds(pause)), clock_(clock) {}

  // The first place of the range behind `after`.
  std::optional<RecordPlace> FirstAfter(const WalkRange& range, const RecordPlace& after) const;
  // Whether the row is to be looked at: its last look is over by the pause, or it is not known.
  bool IsDue(const WalkRange& range, const RecordPlace& place) const;
  // The row was found unreadable now.
  void Add(const WalkRange& range, const RecordPlace& place);
  // It can be read, or is gone.
  void Remove(const WalkRange& range, const RecordPlace& place);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Of scopes by their bytes, as the server orders them.
  using Place = std::tuple<WalkRange::Order, std::string, std::string, RecordId>;

  static Place PlaceOf(const WalkRange& range, const RecordPlace& place) {
    return {range.order, range.first_part, place.scope, place.id};
  }
  void RemoveDue(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::chrono::nanoseconds pause_;
  const Clock& clock_;
  std::atomic<std::size_t> size_{0};
  mutable Mutex mutex_;
  // When each is to be looked at.
  std::map<Place, TimePoint> due_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_UNREADABLE_PLACES_H_
