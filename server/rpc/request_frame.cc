#include "server/rpc/request_frame.h"

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/grpc_headers.h"
#include "core/protobuf_version.h"
#include "grpc_idempotency/errors.h"
#include "server/operation/wire_request.h"
#include "server/queue/batcher.h"

namespace idempotency::internal {
namespace {

constexpr std::size_t kMaxBlockBytes = 32 * 1024;

}  // namespace

RequestFrame::RequestFrame(std::size_t bytes) : bytes_(bytes), arena_(ArenaOptions()) {}

google::protobuf::ArenaOptions RequestFrame::ArenaOptions() {
  google::protobuf::ArenaOptions options;
  options.initial_block = block_.data();
  options.initial_block_size = block_.size();
  options.max_block_size = kMaxBlockBytes;
  return options;
}

absl::Status RequestFrame::Parse(grpc::ByteBuffer& buffer, const FrameBounds& bounds) {
  absl::Status wrong = CheckFrame(buffer, bounds);
  if (!wrong.ok()) {
    buffer.Clear();
    return wrong;
  }
  request_ = NewOnArena<v1::SessionRequest>(arena_);
  if (!grpc::SerializationTraits<v1::SessionRequest>::Deserialize(&buffer, request_).ok()) {
    return UnreadableFrame();
  }
  if (request_->operations().empty()) return InvalidField("operations", "must not be empty");
  return absl::OkStatus();
}

void RequestFrame::MakeOperations(GatheredAnswers::Stream& stream, Caller* caller,
                                  SteadyTime arrived) {
  const UnansweredOperation::Origin origin = {stream, caller, bytes_ / size(), arrived};
  operations_.reserve(size());
  for (const v1::SessionOperation& operation : request_->operations()) {
    if (operation.has_cancel()) {
      cancels_.push_back(operation.id());
      continue;
    }
    const absl::StatusOr<absl::Duration> timeout = TimeoutFrom(operation);
    const SteadyTime deadline = timeout.ok() ? After(arrived, *timeout) : kNever;
    operations_.push_back({&operation, UnansweredOperation::Make(operation, origin, deadline),
                           nullptr, timeout.status()});
  }
}

void RequestFrame::Begin(Operations& operations) {
  Batcher::Group group(operations_.size());
  for (Operation& each : operations_) {
    if (each.refusal.ok()) {
      each.unanswered->Begin(operations, *each.request, group);
    } else {
      each.unanswered->Refuse(operations, each.refusal);
    }
  }
  operations.Submit(group);
}

}  // namespace idempotency::internal
