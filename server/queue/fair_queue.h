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

  // The limits of one call of Take().
  struct Room {
    std::size_t items;
    // Exceeded by at most one item. A namespace takes no more of them than it leaves to the others,
    // if there are any.
    std::size_t bytes;
  };

  // Takes as many live items of different records as there is room for; `bytes_of` has the bytes of
  // one.
  // The namespace after the last one served has the first turn of the next call. In front of it are
  // those whose next item is too large for the rest of this one: they have no further turn of this
  // call, so that large items delay none of other namespaces.
  //
  // Expired items met on the way are put into `expired`. If they took places, a
  // record's items without a waiter would keep its newer ones from ever being in
  // time. Items that join the one in front of them (RecordQueue::TakeOne) do not count.
  template <typename BytesOf, typename IsExpired, typename Join>
  std::vector<Item> Take(const Room& room, const BytesOf& bytes_of, const IsExpired& is_expired,
                         std::vector<Item>& expired, const Join& join) {
    std::vector<Item> taken;
    taken.reserve(std::min(room.items, size_));
    for (NamespaceQueue* const its : turns_) {
      its->left = its->queue.records();
      its->taken_bytes = 0;
    }
    ByteRoom bytes(room.bytes, /*is_shared=*/turns_.size() > 1);
    std::vector<NamespaceQueue*> next_time;
    // Consecutive namespaces without further items for this call.
    for (std::size_t idle = 0; taken.size() < room.items && idle < turns_.size();) {
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
      bool fits = true;
      std::optional<Item> item = its.queue.TakeOne(
          is_expired, expired,
          [&](const Item& next) { return fits = bytes.TryTake(bytes_of(next), its.taken_bytes); },
          join);
      size_ -= before - its.queue.size();
      if (item.has_value()) taken.push_back(*std::move(item));
      if (!fits) {
        next_time.push_back(&its);
      } else if (its.queue.size() > 0) {
        turns_.push_back(&its);
      } else if (namespaces_.size() > kKeptNamespaces) {
        namespaces_.erase(namespaces_.find(*its.name));
      }
    }
    turns_.insert(turns_.begin(), next_time.begin(), next_time.end());
    left_large_ = !next_time.empty();
    return taken;
  }

  // Whether items stayed because they were too large for the rest of the last call.
  bool left_large() const { return left_large_; }

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
    // The bytes that it gave to that call within Room::bytes.
    std::size_t taken_bytes = 0;
  };

  // Room::bytes during a call.
  class ByteRoom {
   public:
    ByteRoom(std::size_t bytes, bool is_shared) : left_(bytes), is_shared_(is_shared) {}

    // For an item of a namespace that has `its` already.
    bool TryTake(std::size_t bytes, std::size_t& its) {
      if (bytes <= left_ && (!is_shared_ || its + bytes <= left_ - bytes)) {
        left_ -= bytes;
        its += bytes;
        return true;
      }
      return !std::exchange(is_exceeded_, true);
    }

   private:
    std::size_t left_;
    const bool is_shared_;
    bool is_exceeded_ = false;
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
  // The namespaces with items, the next one first.
  std::deque<NamespaceQueue*> turns_;
  std::size_t size_ = 0;
  bool left_large_ = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_FAIR_QUEUE_H_
