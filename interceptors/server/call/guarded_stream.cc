#include "interceptors/server/call/guarded_stream.h"

#include <utility>

#include "interceptors/server/call/batch_message.h"
#include "interceptors/server/policy/disposition_rule.h"
#include "interceptors/server/policy/stream_limit.h"

namespace idempotency::internal {

GuardedStream::GuardedStream(const MethodPolicy& policy, std::shared_ptr<StreamWriter> writer)
    : holds_back_(policy.stream == MethodPolicy::Stream::kHoldBack),
      limit_bytes_(policy.stream_limit_bytes),
      writer_(std::move(writer)),
      captures_(policy.reply == MethodPolicy::Reply::kFull) {}

void GuardedStream::Capture(const google::protobuf::MessageLite& message) {
  // Serialised as gRPC does: see CapturingInterceptor.
  if (Captures(message.ByteSizeLong())) captured_.add_stream(message.SerializePartialAsString());
}

void GuardedStream::Capture(const grpc::ByteBuffer& serialized) {
  if (Captures(serialized.Length())) captured_.add_stream(BytesOf(serialized));
}

bool GuardedStream::Captures(std::size_t bytes) {
  if (!takes_messages()) return false;
  weight_bytes_ += StreamWeight(bytes);
  if (weight_bytes_ <= limit_bytes_) return captures_;
  over_limit_ = true;
  captures_ = false;
  // Clear() would keep their memory.
  captured_ = v1::Reply();
  if (holds_back_) writer_->Discard();
  return false;
}

void GuardedStream::MoveTo(v1::Reply& reply) {
  if (captures_) {
    reply.mutable_stream()->Swap(captured_.mutable_stream());
  } else {
    reply = CapturedWithoutContent(reply);
  }
}

}  // namespace idempotency::internal
