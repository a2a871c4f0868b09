#ifndef IDEMPOTENCY_SERVER_RPC_REQUEST_FRAME_H_
#define IDEMPOTENCY_SERVER_RPC_REQUEST_FRAME_H_

#include <google/protobuf/arena.h>
#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "grpc_idempotency/deadline.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/access/access_control.h"
#include "server/operation/operations.h"
#include "server/rpc/frame_bounds.h"
#include "server/rpc/gathered_answers.h"
#include "server/rpc/unanswered_operation.h"

namespace idempotency::internal {

// One frame of a session, from its bytes to its operations in the batcher: Parse(),
// MakeOperations(), UnansweredOperations::Add(), Begin(). Not thread-safe. It is large: for the
// stack.
class RequestFrame {
 public:
  // For a frame of `bytes` bytes.
  explicit RequestFrame(std::size_t bytes);
  RequestFrame(const RequestFrame&) = delete;
  RequestFrame& operator=(const RequestFrame&) = delete;

  // Takes the bytes out of the buffer in any case. REQUEST_INVALID: they are over a bound, are no
  // SessionRequest, or have no operation.
  absl::Status Parse(grpc::ByteBuffer& buffer, const FrameBounds& bounds);
  // After Parse(), also once the operations have begun.
  std::size_t size() const { return request_->operations_size(); }

  void MakeOperations(GatheredAnswers::Stream& stream, Caller* caller, SteadyTime arrived);

  struct Operation {
    const v1::SessionOperation* request;
    std::unique_ptr<UnansweredOperation> made;
    // The same, once the session owns it.
    UnansweredOperation* unanswered = nullptr;
    // Not OK for one that does not begin.
    absl::Status refusal;
  };
  std::vector<Operation>& operations() { return operations_; }
  // The ids of operations whose callers no longer wait.
  const std::vector<std::uint64_t>& cancels() const { return cancels_; }

  // Begins or refuses every operation. Within a AnswerBatchScope.
  void Begin(Operations& operations);

 private:
  // Of a parsed frame: enough for some operations.
  static constexpr std::size_t kFirstBlockBytes = 16 * 1024;

  google::protobuf::ArenaOptions ArenaOptions();

  const std::size_t bytes_;
  alignas(std::max_align_t) std::array<char, kFirstBlockBytes> block_;
  google::protobuf::Arena arena_;
  v1::SessionRequest* request_ = nullptr;
  std::vector<Operation> operations_;
  std::vector<std::uint64_t> cancels_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_REQUEST_FRAME_H_
