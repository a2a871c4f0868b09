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
// turn behind the others, so that a hot record does not delay them. Push costs
// the same for any queue length, and so does each item that leaves.
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

  // The next live item of the record whose turn it is; there must be a record.
  // The expired items in front of it take no place, and are put into `expired`.
  // Nothing if all of the record's items are expired.
  //
  // Every record has its turn once before any has its second: the first
  // records() calls give items of different records.
  //
  // Items behind it leave with it as long as join(item, behind) is true, which then has moved the
  // second into the first.
  template <typename IsExpired, typename Join>
  std::optional<Item> TakeOne(const IsExpired& is_expired, std::vector<Item>& expired,
                              const Join& join) {
    Turn turn = std::move(turns_.front());
    turns_.pop_front();
    const auto line = behind_.find(turn.id);
    while (is_expired(turn.item)) {
      expired.push_back(std::move(turn.item));
      --size_;
      if (line->second.empty()) {
        behind_.erase(line);
        return std::nullopt;
      }
      turn.item = std::move(line->second.front());
      line->second.pop_front();
    }
    while (!line->second.empty() && join(turn.item, line->second.front())) {
      line->second.pop_front();
      --size_;
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
  // The items behind it. Lists: an empty one, as most are, allocates no memory.
  absl::flat_hash_map<RecordId, std::list<Item>> behind_;
  std::size_t size_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_RECORD_QUEUE_H_
