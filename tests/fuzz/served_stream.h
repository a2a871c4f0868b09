#ifndef IDEMPOTENCY_TESTS_FUZZ_SERVED_STREAM_H_
#define IDEMPOTENCY_TESTS_FUZZ_SERVED_STREAM_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.h"

namespace idempotency::internal::fuzz {

// A bidirectional stream of bytes with gRPC's interface for a reactor, without gRPC: the caller's
// side is the thread that made it. Checks the reactor's requests. Not thread-safe, except for the
// functions that the reactor calls.
class ServedStream final
    : public grpc::ServerCallbackReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

  // AwaitEnd() notifies `reactor` that it is done, after which it may be destroyed.
  explicit ServedStream(Reactor* reactor);

  // Each returns when the stream has taken it; false if the reactor reads no more.
  bool SendFrame(std::string_view frame);
  bool HalfClose();
  // The caller has disconnected. Pending operations fail.
  void Cancel();
  // Lets the stream end, which it must within 20 s; its status.
  grpc::Status AwaitEnd();

  // The frames that arrived since the last call.
  std::vector<std::string> TakeFrames();

 private:
  void Finish(grpc::Status status) override;
  void SendInitialMetadata() override {}
  void Read(grpc::ByteBuffer* message) override;
  void Write(const grpc::ByteBuffer* message, grpc::WriteOptions options) override;
  void WriteAndFinish(const grpc::ByteBuffer* message, grpc::WriteOptions options,
                      grpc::Status status) override;
  grpc::internal::ServerReactor* reactor() override { return reactor_; }
  void CallOnDone() override {}

  // The destination of the next frame, once the pending writes are done; nullptr if the reactor
  // reads no more.
  grpc::ByteBuffer* TakeRead();
  // False if there is nothing to write.
  bool CompleteWrite();

  Reactor* const reactor_;
  bool cancelled_ = false;
  std::vector<std::string> frames_;

  Mutex mutex_;
  CondVar changed_;
  grpc::ByteBuffer* read_ ABSL_GUARDED_BY(mutex_) = nullptr;
  const grpc::ByteBuffer* write_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_SERVED_STREAM_H_
