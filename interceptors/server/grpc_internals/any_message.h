// A substitute for every generated message type, with which gRPC's templates are used for types
// that are unknown here. Part of grpc_internals.cc.
#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_ANY_MESSAGE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_ANY_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "google/protobuf/message_lite.h"

#include "core/grpc_headers.h"
#include "core/mutex.h"

namespace idempotency::internal::grpc_internals {

// Represents a generated message whose type is unknown here. Never read or written as this
// type: only its address is passed on.
//
// Not in an anonymous namespace: if the name cannot be known in other files, compilers assume
// that the classes derived from MessageHolder<AnyMessage, AnyMessage> in this file are all that
// exist, and would call one of them instead of the user's holder. Whole-program
// devirtualisation (clang's -fwhole-program-vtables) makes the same assumption: these files
// must be built without it.
class AnyMessage {};

// The stored bytes of replies that are being sent, by the address of the message that gRPC
// received. gRPC must receive the real message, because other interceptors cast
// GetSendMessage() to it; but serialising that again would give its maps another order than in
// the first reply. Thread-safe.
class StoredBytes {
 public:
  // Never destroyed: calls may end after static destruction has started.
  static StoredBytes& Instance() {
    static StoredBytes* const instance = std::make_unique<StoredBytes>().release();
    return *instance;
  }

  void Put(const void* message, std::shared_ptr<const std::string> bytes) {
    Shard& shard = ShardOf(message);
    MutexLock lock(shard.mutex);
    shard.bytes[message] = std::move(bytes);
  }

  void Remove(const void* message) {
    Shard& shard = ShardOf(message);
    MutexLock lock(shard.mutex);
    shard.bytes.erase(message);
  }

  // nullptr for any other message.
  std::shared_ptr<const std::string> Find(const void* message) {
    Shard& shard = ShardOf(message);
    MutexLock lock(shard.mutex);
    const auto found = shard.bytes.find(message);
    return found == shard.bytes.end() ? nullptr : found->second;
  }

 private:
  struct Shard {
    Mutex mutex;
    absl::flat_hash_map<const void*, std::shared_ptr<const std::string>> bytes
        ABSL_GUARDED_BY(mutex);
  };

  Shard& ShardOf(const void* message) { return shards_[absl::HashOf(message) % shards_.size()]; }

  std::array<Shard, 32> shards_;
};

}  // namespace idempotency::internal::grpc_internals

namespace grpc {

// Returns the stored bytes if there are some, and otherwise serialises the message, which
// another interceptor may have replaced.
template <>
class SerializationTraits<idempotency::internal::grpc_internals::AnyMessage> {
 public:
  static Status Serialize(const idempotency::internal::grpc_internals::AnyMessage& any,
                          ByteBuffer* buffer, bool* own_buffer) {
    const void* address = &any;
    const auto stored =
        idempotency::internal::grpc_internals::StoredBytes::Instance().Find(address);
    *own_buffer = true;
    std::string serialized;
    if (stored == nullptr &&
        !static_cast<const google::protobuf::MessageLite*>(address)->SerializePartialToString(
            &serialized)) {
      return Status(StatusCode::INTERNAL, "Failed to serialize message");
    }
    Slice slice(stored == nullptr ? serialized : *stored);
    ByteBuffer bytes(&slice, 1);
    buffer->Swap(&bytes);
    return Status::OK;
  }

  // Requests are deserialised by the handler of the user's service.
  static Status Deserialize(ByteBuffer* /*buffer*/,
                            idempotency::internal::grpc_internals::AnyMessage* /*message*/) {
    return Status(StatusCode::INTERNAL, "not a handler for requests");
  }
};

}  // namespace grpc

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_ANY_MESSAGE_H_
