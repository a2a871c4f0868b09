#include "interceptors/server/call/guarded_stream.h"

#include <utility>

#include "grpc_idempotency/reply.h"

namespace idempotency::internal {
namespace {

// The size that each message counts in addition to its bytes: half of what the two copies of a
// held-back message, for the record and for the client, take in addition to the bytes. So a
// captured stream takes at most about twice its limit.
constexpr std::size_t kMessageOverheadBytes = 96;

}  // namespace

GuardedStream::GuardedStream(const MethodPolicy& policy, std::shared_ptr<StreamWriter> writer)
    : holds_back_(policy.stream == MethodPolicy::Stream::kHoldBack),
      limit_bytes_(policy.stream_limit_bytes),
      writer_(std::move(writer)),
      captures_(policy.reply == MethodPolicy::Reply::kFull) {}

void GuardedStream::Capture(const google::protobuf::MessageLite& message) {
  if (over_limit_ || lets_writes_through()) return;
  weight_bytes_ += message.ByteSizeLong() + kMessageOverheadBytes;
  if (weight_bytes_ > limit_bytes_) {
    over_limit_ = true;
    captures_ = false;
    // Clear() would keep their memory.
    captured_ = v1::Reply();
    if (holds_back_) writer_->Discard();
  } else if (captures_) {
    // Serialised as gRPC does: see CapturingInterceptor.
    captured_.add_stream(message.SerializePartialAsString());
  }
}

void GuardedStream::MoveTo(v1::Reply& reply) {
  if (captures_) {
    reply.mutable_stream()->Swap(captured_.mutable_stream());
  } else {
    reply = WithoutContent(reply);
  }
}

}  // namespace idempotency::internal
