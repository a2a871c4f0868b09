#ifndef IDEMPOTENCY_CORE_ARENA_MESSAGE_H_
#define IDEMPOTENCY_CORE_ARENA_MESSAGE_H_

#include <array>
#include <cstddef>
#include <memory>

#include "google/protobuf/arena.h"

namespace idempotency::internal {

// A message and the arena of its parts, in one block as long as the parts are small: they are not
// allocated and freed one by one, by two threads.
template <typename Message>
class ArenaMessage {
 public:
  ArenaMessage()
      : arena_(block_.data(), block_.size()),
        message_(google::protobuf::Arena::CreateMessage<Message>(&arena_)) {}

  Message* message() { return message_; }

 private:
  // A request with a record key of usual size, and the arena's own data. The owner is under 1 KiB:
  // an allocator has a slow path for more.
  static constexpr std::size_t kBlockBytes = 896;

  alignas(std::max_align_t) std::array<char, kBlockBytes> block_;
  google::protobuf::Arena arena_;
  Message* const message_;
};

template <typename Message>
std::shared_ptr<Message> MakeArenaMessage() {
  const auto owner = std::make_shared<ArenaMessage<Message>>();
  return std::shared_ptr<Message>(owner, owner->message());
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_ARENA_MESSAGE_H_
