// The stream of frames to minimal_daemon.
#ifndef IDEMPOTENCY_BENCH_MINIMAL_DAEMON_SESSION_H_
#define IDEMPOTENCY_BENCH_MINIMAL_DAEMON_SESSION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/client_callback.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "absl/types/span.h"

#include "bench/minimal/operation.h"

namespace idempotency::internal::bench {

// Operations that come while a frame is being written go into the next one. A read begins behind
// the next write if nothing is owed, so that the write's packet extends the window.
class DaemonSession final : public Operations,
                            private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit DaemonSession(const std::string& address);
  // No operation may be under way.
  ~DaemonSession() override;

  void Submit(absl::Span<Operation* const> operations) override;

 private:
  void OnWriteDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  // Writes what has gathered, unless a frame is being written; then reads if nothing reads and an
  // answer is owed.
  void Proceed(bool read_ended);

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  // What is being written and read.
  grpc::ByteBuffer written_;
  grpc::ByteBuffer read_;

  std::mutex mutex_;
  std::condition_variable done_;
  FrameWriter gathered_;
  std::size_t gathered_count_ = 0;
  std::size_t owed_ = 0;
  bool writing_ = false;
  bool reading_ = false;
  bool closing_ = false;
  bool is_done_ = false;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_MINIMAL_DAEMON_SESSION_H_
