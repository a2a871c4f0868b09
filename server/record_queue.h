#ifndef IDEMPOTENCY_SERVER_RECORD_QUEUE_H_
#define IDEMPOTENCY_SERVER_RECORD_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "core/uuid.h"

namespace idempotency {

// A queue that gives out at most one item per record at a time. Items of one
// record leave in the order in which they came; a record with several takes its
// next turn behind the others, so that a hot record does not hold them up.
// Push and each item of Take cost the same whatever is queued.
//
// Not thread-safe.
template <typename Item>
class RecordQueue {
 public:
  void Push(const RecordId& id, Item item) {
    std::deque<Item>& line = lines_[id];
    if (line.empty()) turns_.push_back(id);
    line.push_back(std::move(item));
    ++size_;
  }

  // Up to `limit` items of different records.
  std::vector<Item> Take(std::size_t limit) {
    const std::size_t count = std::min(limit, turns_.size());
    std::vector<Item> taken;
    taken.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const RecordId id = turns_.front();
      turns_.pop_front();
      taken.push_back(TakeFrom(id));
    }
    size_ -= count;
    return taken;
  }

  std::size_t size() const { return size_; }

 private:
  Item TakeFrom(const RecordId& id) {
    const auto line = lines_.find(id);
    Item item = std::move(line->second.front());
    line->second.pop_front();
    if (line->second.empty()) {
      lines_.erase(line);
    } else {
      turns_.push_back(id);
    }
    return item;
  }

  absl::flat_hash_map<RecordId, std::deque<Item>> lines_;
  // Every record that has items, once.
  std::deque<RecordId> turns_;
  std::size_t size_ = 0;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_RECORD_QUEUE_H_
