#include "interceptors/server/call/stream_writer_interceptor.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <optional>

#include "interceptors/server/call/guarded_stream.h"

namespace idempotency::internal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using Batch = grpc::experimental::InterceptorBatchMethods;

bool Has(Batch& batch, InterceptionHookPoints point) {
  return batch.QueryInterceptionHookPoint(point);
}

// The bytes as gRPC would send them; the batch has no message any more.
std::optional<grpc::ByteBuffer> Take(Batch& batch) {
  grpc::ByteBuffer* const serialized = batch.GetSerializedSendMessage();
  // Another interceptor may have withheld it.
  if (!serialized->Valid()) return std::nullopt;
  grpc::ByteBuffer taken;
  taken.Swap(serialized);
  return taken;
}

// A status goes out after the messages before it. Where one of them did not
// leave, an OK would pretend that the stream was whole.
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
  if (stream.lets_writes_through()) {
    // After what the writer still holds: gRPC takes one message at a time.
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

// The batch that begins the reply on the wire: its initial metadata must go
// before the first message, so the message follows on its own.
void Begin(GuardedStream& stream, Batch& batch) {
  if (Has(batch, InterceptionHookPoints::PRE_SEND_MESSAGE) && !stream.lets_writes_through()) {
    stream.writer().Put(Take(batch), nullptr);
  }
  batch.Proceed();
  if (!stream.holds_back()) stream.writer().Open();
}

}  // namespace

void StreamWriterInterceptor::Intercept(Batch* batch) {
  // On another thread than the call's, and none of our business.
  if (Has(*batch, InterceptionHookPoints::PRE_SEND_CANCEL)) {
    batch->Proceed();
    return;
  }
  // A copy: once the batch has proceeded the call, and this, may be gone.
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
