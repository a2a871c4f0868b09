#ifndef IDEMPOTENCY_SERVER_FAIR_QUEUE_H_
#define IDEMPOTENCY_SERVER_FAIR_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"

#include "core/absl_view.h"
#include "grpc_idempotency/uuid.h"
#include "server/record_queue.h"

namespace idempotency::internal {

// A queue in which namespaces take turns, one item each, so that one that
// offers more than its share waits for itself and not the others for it. Within
// a namespace it is a RecordQueue: one item per record at a time.
//
// Not thread-safe.
template <typename Item>
class FairQueue {
 public:
  void Push(std::string_view name_space, const RecordId& id, Item item) {
    const auto found = lanes_.try_emplace(AbslView(name_space)).first;
    Lane& lane = found->second;
    if (lane.queue.size() == 0) {
      lane.name = &found->first;
      turns_.push_back(&lane);
    }
    lane.queue.Push(id, std::move(item));
    ++size_;
  }

  // Up to `limit` items of different records, of those that live. The namespace
  // after the one that came last has the first turn of the next call.
  //
  // Dead ones that are met on the way are put into `buried`. If they took places,
  // a record's items that nobody waits for any more would keep its newer ones
  // from ever being in time.
  template <typename IsDead>
  std::vector<Item> Take(std::size_t limit, const IsDead& is_dead, std::vector<Item>& buried) {
    std::vector<Item> taken;
    taken.reserve(std::min(limit, size_));
    const std::size_t buried_before = buried.size();
    for (Lane* const lane : turns_) lane->left = lane->queue.records();
    // Lanes in a row that have nothing more for this call.
    for (std::size_t idle = 0; taken.size() < limit && idle < turns_.size();) {
      Lane& lane = *turns_.front();
      turns_.pop_front();
      if (lane.left == 0) {
        turns_.push_back(&lane);
        ++idle;
        continue;
      }
      idle = 0;
      --lane.left;
      std::optional<Item> item = lane.queue.TakeOne(is_dead, buried);
      if (item.has_value()) taken.push_back(*std::move(item));
      if (lane.queue.size() > 0) {
        turns_.push_back(&lane);
      } else if (lanes_.size() > kKeptLanes) {
        lanes_.erase(lanes_.find(*lane.name));
      }
    }
    size_ -= taken.size() + (buried.size() - buried_before);
    return taken;
  }

  std::size_t size() const { return size_; }
  std::size_t SizeOf(std::string_view name_space) const {
    const auto lane = lanes_.find(AbslView(name_space));
    return lane == lanes_.end() ? 0 : lane->second.queue.size();
  }
  // Namespaces that have items.
  std::size_t namespaces() const { return turns_.size(); }

 private:
  // Empty lanes stay for the next item, until callers have thought of too many
  // names.
  static constexpr std::size_t kKeptLanes = 64;

  struct Lane {
    RecordQueue<Item> queue;
    const std::string* name = nullptr;
    // Items that it may still give to the call of Take().
    std::size_t left = 0;
  };

  absl::node_hash_map<std::string, Lane> lanes_;
  // Those with items, the next one first.
  std::deque<Lane*> turns_;
  std::size_t size_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_FAIR_QUEUE_H_
