#include "interceptors/server/connection/answer_memory.h"

#include <string>

namespace idempotency::internal {
namespace {

using google::protobuf::RepeatedPtrField;
using google::protobuf::Timestamp;

// The memory of a string object, which holds short texts itself. A field that was never set has
// none, which cannot be distinguished here from one that was set to "".
std::size_t MemoryOf(const std::string& text) {
  static const std::size_t within = std::string().capacity();
  return sizeof(std::string) + (text.capacity() > within ? text.capacity() + 1 : 0);
}

std::size_t MemoryOf(const v1::MetadataEntry& entry) {
  return sizeof(entry) + MemoryOf(entry.key()) + MemoryOf(entry.value());
}

template <typename Element>
std::size_t MemoryOf(const RepeatedPtrField<Element>& elements) {
  std::size_t bytes = static_cast<std::size_t>(elements.Capacity()) * sizeof(void*);
  for (const Element& element : elements) bytes += MemoryOf(element);
  return bytes;
}

std::size_t MemoryOf(const google::protobuf::Map<std::string, std::string>& labels) {
  // An entry has a link to the next one, and about one slot of the table.
  constexpr std::size_t kLinks = 2 * sizeof(void*);
  std::size_t bytes = 0;
  for (const auto& [name, value] : labels) {
    bytes += kLinks + MemoryOf(name) + MemoryOf(value);
  }
  return bytes;
}

std::size_t MemoryOf(const v1::Reply& reply) {
  return sizeof(reply) + MemoryOf(reply.message()) + MemoryOf(reply.details()) +
         MemoryOf(reply.body()) + MemoryOf(reply.initial_metadata()) +
         MemoryOf(reply.trailing_metadata()) + MemoryOf(reply.stream());
}

std::size_t MemoryOf(const v1::Replay& replay) {
  return sizeof(replay) + MemoryOf(replay.reply()) + 2 * sizeof(Timestamp) +
         MemoryOf(replay.labels());
}

}  // namespace

std::size_t MemoryOf(const v1::ReserveResponse& answer) {
  return sizeof(answer) + MemoryOf(answer.record_id()) +
         (answer.has_replay() ? MemoryOf(answer.replay()) : 0);
}

}  // namespace idempotency::internal
