#ifndef IDEMPOTENCY_SERVER_RPC_UNARY_REQUEST_H_
#define IDEMPOTENCY_SERVER_RPC_UNARY_REQUEST_H_

#include <google/protobuf/arena.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/grpc_headers.h"
#include "core/protobuf_version.h"
#include "server/observability/operation_kind.h"
#include "server/queue/memory_budget.h"
#include "server/rpc/frame_bounds.h"

namespace idempotency::internal {

// Admits a request before anything is built from it: measures its bytes, which are a
// `type`, and takes its size once parsed out of the budget.
//   INVALID_ARGUMENT / REQUEST_INVALID  Over `max_parsed_bytes`, or not a `type`.
//   RESOURCE_EXHAUSTED / OVERLOADED     There is no room. Carries a retry delay.
absl::StatusOr<MemoryBudget::Hold> AdmitRequest(grpc::ByteBuffer& bytes,
                                                const google::protobuf::Descriptor& type,
                                                std::size_t max_parsed_bytes, OperationKind kind,
                                                MemoryBudget& budget);

// RESOURCE_EXHAUSTED / OVERLOADED, as AdmitRequest() refuses.
absl::Status NoRoomForRequest();

// A request of a unary method until it is converted to an operation: most need no
// other memory. Not thread-safe.
template <typename Message>
class UnaryRequest {
 public:
  UnaryRequest() : arena_(Options()) {}
  UnaryRequest(const UnaryRequest&) = delete;
  UnaryRequest& operator=(const UnaryRequest&) = delete;

  // Takes the bytes out of the buffer in any case. Once. REQUEST_INVALID if they are
  // not such a message.
  absl::Status Parse(grpc::ByteBuffer& bytes) {
    return grpc::SerializationTraits<Message>::Deserialize(&bytes, message_).ok()
               ? absl::OkStatus()
               : UnreadableRequest();
  }

  const Message& message() const { return *message_; }

 private:
  google::protobuf::ArenaOptions Options() {
    google::protobuf::ArenaOptions options;
    options.initial_block = block_.data();
    options.initial_block_size = block_.size();
    return options;
  }

  alignas(std::max_align_t) std::array<char, 2048> block_;
  google::protobuf::Arena arena_;
  Message* const message_ = NewOnArena<Message>(arena_);
};

// The bytes of a unary answer that gRPC keeps until they are written; a status is small.
inline std::size_t AnswerBytes(grpc::ByteBuffer& response, const grpc::Status& status) {
  return status.ok() ? response.Length() : 0;
}

// gRPC's callback API makes the buffer for one call alone, and not const.
inline grpc::ByteBuffer* OwnBuffer(const grpc::ByteBuffer* request) {
  return const_cast<grpc::ByteBuffer*>(request);
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_UNARY_REQUEST_H_
