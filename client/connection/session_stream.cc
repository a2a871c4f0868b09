#include "client/connection/session_stream.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/slice.h>

#include <utility>

#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::internal {
namespace {

// Sends bytes that were serialised before, receives messages.
using SessionStub = grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::SessionResponse>;
constexpr char kMethod[] = "/idempotency.v1.IdempotencyService/Session";

// The bytes, not a copy of them.
grpc::ByteBuffer ToBuffer(std::string bytes) {
  auto owned = std::make_unique<std::string>(std::move(bytes));
  void* const data = owned->data();
  const std::size_t size = owned->size();
  const grpc::Slice slice(
      data, size, [](void* string) { delete static_cast<std::string*>(string); }, owned.release());
  return grpc::ByteBuffer(&slice, 1);
}

// gRPC ends a call once no operation is in progress and it has no hold. The
// hold is for writes, which come from any thread: without it the call could end
// just as one begins.
class GrpcSessionStream final
    : public SessionStream,
      private grpc::ClientBidiReactor<grpc::ByteBuffer, v1::SessionResponse> {
 public:
  GrpcSessionStream(grpc::Channel& channel, SessionStub& stub, Events& events)
      : channel_(channel), events_(events) {
    stub.PrepareBidiStreamingCall(&context_, kMethod, grpc::StubOptions(), this);
    AddHold();
  }

  void Start() override {
    StartRead(&incoming_);
    StartCall();
  }
  void Read() override { StartRead(&incoming_); }
  void Write(std::string frame) override {
    outgoing_ = ToBuffer(std::move(frame));
    StartWrite(&outgoing_);
  }
  void HalfClose() override { StartWritesDone(); }
  void Cancel() override { context_.TryCancel(); }
  bool had_connection() const override { return had_connection_; }
  void Release() override { RemoveHold(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return events_.OnReadEnd(*this);
    heard_ = true;
    v1::SessionResponse frame;
    frame.Swap(&incoming_);
    events_.OnFrame(*this, std::move(frame));
  }
  void OnWriteDone(bool ok) override {
    if (ok) wrote_ = true;
    events_.OnWritten(*this, ok);
  }
  void OnWritesDoneDone(bool ok) override { events_.OnWritten(*this, ok); }
  void OnDone(const grpc::Status& status) override {
    // gRPC fails a call with UNAVAILABLE once no daemon accepts a connection. A
    // stream that received or wrote a frame had one, which may be lost by now. The
    // channel's state is read only in that case: an in-process channel has none.
    had_connection_ = heard_ || wrote_ || status.error_code() != grpc::StatusCode::UNAVAILABLE ||
                      channel_.GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_TRANSIENT_FAILURE;
    events_.OnEnd(*this, status);
  }

  grpc::Channel& channel_;
  Events& events_;
  // A frame was received. Reads end before OnDone.
  bool heard_ = false;
  // A frame was sent. Writes end before OnDone.
  bool wrote_ = false;
  bool had_connection_ = true;
  grpc::ClientContext context_;
  v1::SessionResponse incoming_;
  grpc::ByteBuffer outgoing_;
};

}  // namespace

SessionStreamFactory SessionStreamsOver(std::shared_ptr<grpc::Channel> channel) {
  auto stub = std::make_shared<SessionStub>(channel);
  return [channel = std::move(channel), stub = std::move(stub)](SessionStream::Events& events) {
    return std::make_shared<GrpcSessionStream>(*channel, *stub, events);
  };
}

}  // namespace idempotency::internal
