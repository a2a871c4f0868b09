#include "interceptors/server/call/stream_writer_interceptor.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <optional>

#include "interceptors/server/call/batch_message.h"
#include "interceptors/server/call/guarded_stream.h"

namespace idempotency::internal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using Batch = grpc::experimental::InterceptorBatchMethods;

bool Has(Batch& batch, InterceptionHookPoints point) {
  return batch.QueryInterceptionHookPoint(point);
}

// Takes the bytes as gRPC would send them; the batch then has no message.
std::optional<grpc::ByteBuffer> Take(Batch& batch) {
  grpc::ByteBuffer* const serialized = batch.GetSerializedSendMessage();
  // Another interceptor may have withheld it.
  if (!serialized->Valid()) return std::nullopt;
  grpc::ByteBuffer taken;
  taken.Swap(serialized);
  return taken;
}

// Sends a status after the messages before it. If one of them was not sent, an OK would claim
// that the stream was complete.
void End(GuardedStream& stream, Batch& batch) {
  stream.writer().Drain([&batch](bool all_sent) {
    if (!all_sent) {
      batch.ModifySendStatus(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                          "a message of the stream could not be sent: it is over "
                                          "the server's limit, or the call was cancelled"));
    }
    batch.Proceed();
  });
}

void Write(GuardedStream& stream, Batch& batch) {
  if (stream.drops_messages()) {
    DropMessage(batch);
    batch.Proceed();
    return;
  }
  if (stream.lets_writes_through()) {
    // After the messages that the writer still has: gRPC takes one message at a time.
    stream.writer().Put(std::nullopt, [&batch] { batch.Proceed(); });
    return;
  }
  if (stream.holds_back()) {
    stream.writer().Put(Take(batch), nullptr);
    batch.Proceed();
  } else {
    stream.writer().Put(Take(batch), [&batch] { batch.Proceed(); });
  }
}

// The batch that starts the reply on the wire: its initial metadata must be sent before the
// first message, so the message follows separately.
void Begin(GuardedStream& stream, Batch& batch) {
  if (Has(batch, InterceptionHookPoints::PRE_SEND_MESSAGE) && !stream.lets_writes_through()) {
    if (stream.drops_messages()) {
      DropMessage(batch);
    } else {
      stream.writer().Put(Take(batch), nullptr);
    }
  }
  batch.Proceed();
  if (!stream.holds_back()) stream.writer().Open();
}

}  // namespace

void StreamWriterInterceptor::Intercept(Batch* batch) {
  // Called on another thread than the call's, and irrelevant here.
  if (Has(*batch, InterceptionHookPoints::PRE_SEND_CANCEL)) {
    batch->Proceed();
    return;
  }
  // A copy: once the batch has proceeded, the call and this object may be destroyed.
  const std::shared_ptr<GuardedStream> stream = call_ == nullptr ? nullptr : call_->stream();
  if (stream != nullptr && Has(*batch, InterceptionHookPoints::PRE_SEND_STATUS)) {
    End(*stream, *batch);
  } else if (stream != nullptr && Has(*batch, InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
    Begin(*stream, *batch);
  } else if (stream != nullptr && Has(*batch, InterceptionHookPoints::PRE_SEND_MESSAGE)) {
    Write(*stream, *batch);
  } else {
    batch->Proceed();
  }
}

}  // namespace idempotency::internal
