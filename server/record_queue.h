#ifndef IDEMPOTENCY_SERVER_RECORD_QUEUE_H_
#define IDEMPOTENCY_SERVER_RECORD_QUEUE_H_

#include <cstddef>
#include <deque>
#include <list>
#include <optional>
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
    const auto [line, first] = behind_.try_emplace(id);
    if (first) {
      turns_.push_back({id, std::move(item)});
    } else {
      line->second.push_back(std::move(item));
    }
    ++size_;
  }

  // Up to `limit` items of different records.
  std::vector<Item> Take(std::size_t limit) {
    std::vector<Item> taken;
    const std::size_t records = turns_.size();
    for (std::size_t i = 0; i < records && i < limit; ++i) taken.push_back(TakeOne());
    return taken;
  }

  // The next one; there must be one. Every record has its turn once before any
  // has its second: the first records() calls give items of different records.
  Item TakeOne() {
    std::vector<Item> none;
    return *TakeOne([](const Item&) { return false; }, none);
  }

  // The same, of those that live: the dead in front of it take nobody's place, and
  // are put into `buried`. Nothing if all of the record's are dead.
  template <typename IsDead>
  std::optional<Item> TakeOne(const IsDead& is_dead, std::vector<Item>& buried) {
    Turn turn = std::move(turns_.front());
    turns_.pop_front();
    const auto line = behind_.find(turn.id);
    while (is_dead(turn.item)) {
      buried.push_back(std::move(turn.item));
      --size_;
      if (line->second.empty()) {
        behind_.erase(line);
        return std::nullopt;
      }
      turn.item = std::move(line->second.front());
      line->second.pop_front();
    }
    if (line->second.empty()) {
      behind_.erase(line);
    } else {
      turns_.push_back({turn.id, std::move(line->second.front())});
      line->second.pop_front();
    }
    --size_;
    return std::move(turn.item);
  }

  std::size_t size() const { return size_; }
  // Those that have items.
  std::size_t records() const { return turns_.size(); }

 private:
  struct Turn {
    RecordId id;
    Item item;
  };

  // The next item of every record that has any.
  std::deque<Turn> turns_;
  // The items behind it. Lists: an empty one, which most are, has no memory of
  // its own.
  absl::flat_hash_map<RecordId, std::list<Item>> behind_;
  std::size_t size_ = 0;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_RECORD_QUEUE_H_
