#ifndef IDEMPOTENCY_SERVER_QUEUE_RECORD_QUEUE_H_
#define IDEMPOTENCY_SERVER_QUEUE_RECORD_QUEUE_H_

#include <cstddef>
#include <deque>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// A queue that gives out at most one item per record at a time. Items of one
// record leave in their order of arrival; a record with several takes its next
// turn behind the others, so that a hot record does not delay them. Each item
// that enters or leaves costs the same for any queue length.
//
// Not thread-safe.
template <typename Item>
class RecordQueue {
 public:
  void Push(const RecordId& id, Item item) {
    const auto [line, first] = lines_.try_emplace(id);
    if (first) {
      line->second.front = std::move(item);
      turns_.push_back(id);
    } else {
      line->second.behind.push_back(std::move(item));
    }
    ++size_;
  }

  // An item that has left is the next one of its record again: items that arrived after it
  // must not overtake it, however often it returns. Several are put back last one first.
  void PutBack(const RecordId& id, Item item) {
    const auto [line, first] = lines_.try_emplace(id);
    if (first) {
      turns_.push_back(id);
    } else {
      line->second.behind.push_front(std::move(line->second.front));
    }
    line->second.front = std::move(item);
    ++size_;
  }

  // The next live item of the record whose turn it is; there must be a record.
  // The expired items in front of it take no place, and are put into `expired`.
  // Nothing if all of the record's items are expired, or if fits(item) is false for
  // the live one, which then remains the next one.
  //
  // Every record has its turn once before any has its second: the first
  // records() calls give items of different records.
  //
  // Live items behind it leave with it as long as join(item, behind) is true, which then has moved
  // the second into the first.
  template <typename IsExpired, typename Fits, typename Join>
  std::optional<Item> TakeOne(const IsExpired& is_expired, std::vector<Item>& expired,
                              const Fits& fits, const Join& join) {
    const RecordId id = turns_.front();
    turns_.pop_front();
    const auto found = lines_.find(id);
    Line& line = found->second;
    std::optional<Item> taken;
    bool any = true;
    for (; any; any = Advance(line)) {
      if (is_expired(line.front)) {
        expired.push_back(std::move(line.front));
      } else if (!taken.has_value()) {
        if (!fits(line.front)) {
          turns_.push_front(id);
          return std::nullopt;
        }
        taken = std::move(line.front);
      } else if (!join(*taken, line.front)) {
        break;
      }
      --size_;
    }
    if (any) {
      turns_.push_back(id);
    } else {
      lines_.erase(found);
    }
    return taken;
  }

  std::size_t size() const { return size_; }
  // The number of records that have items.
  std::size_t records() const { return turns_.size(); }

 private:
  // A record's items.
  struct Line {
    Item front;
    // A list: an empty one, as most are, allocates no memory.
    std::list<Item> behind;
  };

  // False if there is no further item.
  static bool Advance(Line& line) {
    if (line.behind.empty()) return false;
    line.front = std::move(line.behind.front());
    line.behind.pop_front();
    return true;
  }

  // Every record that has an item, once.
  std::deque<RecordId> turns_;
  absl::flat_hash_map<RecordId, Line> lines_;
  std::size_t size_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_RECORD_QUEUE_H_
