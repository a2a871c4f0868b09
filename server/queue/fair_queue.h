#ifndef IDEMPOTENCY_SERVER_QUEUE_FAIR_QUEUE_H_
#define IDEMPOTENCY_SERVER_QUEUE_FAIR_QUEUE_H_

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
#include "server/queue/record_queue.h"

namespace idempotency::internal {

// A queue in which namespaces take turns, one item each, so that a namespace
// that offers more than its share delays only itself. Within a namespace it is
// a RecordQueue: one item per record at a time.
//
// Not thread-safe.
template <typename Item>
class FairQueue {
 public:
  void Push(std::string_view name_space, const RecordId& id, Item item) {
    QueueOf(name_space).Push(id, std::move(item));
    ++size_;
  }

  // See RecordQueue::PutBack().
  void PutBack(std::string_view name_space, const RecordId& id, Item item) {
    QueueOf(name_space).PutBack(id, std::move(item));
    ++size_;
  }

  // Up to `limit` live items of different records. The namespace after the last
  // one served has the first turn of the next call.
  //
  // Expired items met on the way are put into `expired`. If they took places, a
  // record's items without a waiter would keep its newer ones from ever being in
  // time. Items that join the one in front of them (RecordQueue::TakeOne) do not count.
  template <typename IsExpired, typename Join>
  std::vector<Item> Take(std::size_t limit, const IsExpired& is_expired, std::vector<Item>& expired,
                         const Join& join) {
    std::vector<Item> taken;
    taken.reserve(std::min(limit, size_));
    for (NamespaceQueue* const its : turns_) its->left = its->queue.records();
    // Consecutive namespaces without further items for this call.
    for (std::size_t idle = 0; taken.size() < limit && idle < turns_.size();) {
      NamespaceQueue& its = *turns_.front();
      turns_.pop_front();
      if (its.left == 0) {
        turns_.push_back(&its);
        ++idle;
        continue;
      }
      idle = 0;
      --its.left;
      const std::size_t before = its.queue.size();
      std::optional<Item> item = its.queue.TakeOne(is_expired, expired, join);
      size_ -= before - its.queue.size();
      if (item.has_value()) taken.push_back(*std::move(item));
      if (its.queue.size() > 0) {
        turns_.push_back(&its);
      } else if (namespaces_.size() > kKeptNamespaces) {
        namespaces_.erase(namespaces_.find(*its.name));
      }
    }
    return taken;
  }

  std::size_t size() const { return size_; }
  std::size_t SizeOf(std::string_view name_space) const {
    const auto its = namespaces_.find(AbslView(name_space));
    return its == namespaces_.end() ? 0 : its->second.queue.size();
  }
  // Namespaces that have items.
  std::size_t namespaces() const { return turns_.size(); }

 private:
  // Empty queues stay for the next item, until there are too many names.
  static constexpr std::size_t kKeptNamespaces = 64;

  struct NamespaceQueue {
    RecordQueue<Item> queue;
    const std::string* name = nullptr;
    // Items that it may still give to the call of Take().
    std::size_t left = 0;
  };

  // For an item that is about to enter it.
  RecordQueue<Item>& QueueOf(std::string_view name_space) {
    const auto found = namespaces_.try_emplace(AbslView(name_space)).first;
    NamespaceQueue& its = found->second;
    if (its.queue.size() == 0) {
      its.name = &found->first;
      turns_.push_back(&its);
    }
    return its.queue;
  }

  absl::node_hash_map<std::string, NamespaceQueue> namespaces_;
  // Those with items, the next one first.
  std::deque<NamespaceQueue*> turns_;
  std::size_t size_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_FAIR_QUEUE_H_
