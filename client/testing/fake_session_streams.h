#ifndef IDEMPOTENCY_CLIENT_TESTING_FAKE_SESSION_STREAMS_H_
#define IDEMPOTENCY_CLIENT_TESTING_FAKE_SESSION_STREAMS_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/connection/session_stream.h"
#include "core/mutex.h"

namespace idempotency::internal::testing {

// The threads that run events of fake streams, as gRPC's threads would.
class FakeNetwork {
 public:
  explicit FakeNetwork(int threads);
  ~FakeNetwork();

  void Post(std::function<void()> task);
  // Returns when no event is posted or running.
  void Settle();

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// A SessionStream without gRPC, under the rules of one: events after the call that requests them,
// OnEnd last. Checks its requests. Thread-safe.
class FakeSessionStream final : public SessionStream {
 public:
  // Called for each frame, on the network.
  using Peer = std::function<void(FakeSessionStream&, const v1::SessionRequest&)>;

  FakeSessionStream(FakeNetwork& network, Events& events, Peer peer);
  ~FakeSessionStream() override;

  // The server's actions. They have no effect after End().
  void ServerSends(v1::SessionResponse frame);
  void End(grpc::Status status);
  // There was no connection for this stream.
  void HadNoConnection();
  // Later writes do not complete before ReleaseWrites().
  void HoldWrites();
  void ReleaseWrites();

  std::vector<v1::SessionRequest> frames() const;
  bool half_closed() const;
  bool cancelled() const;
  // Whether a read is under way.
  bool reading() const;
  // Returns when one is; false if none begins within 10 s.
  bool AwaitRead() const;

  void Start() override;
  void Read() override;
  void Write(std::string frame) override;
  void HalfClose() override;
  void Cancel() override;
  bool had_connection() const override;
  void Release() override;

 private:
  void Post(std::function<void()> event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWrite(bool ok) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deliver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndIfDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  FakeNetwork& network_;
  Events& events_;
  const Peer peer_;

  mutable Mutex mutex_;
  mutable CondVar read_began_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_write_ ABSL_GUARDED_BY(mutex_) = false;
  bool hold_writes_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool had_connection_ ABSL_GUARDED_BY(mutex_) = true;
  int events_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<grpc::Status> status_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::SessionResponse> incoming_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::SessionRequest> frames_ ABSL_GUARDED_BY(mutex_);
};

// Every stream that a session opened.
class FakeSessionStreams {
 public:
  explicit FakeSessionStreams(int network_threads = 1) : network_(network_threads) {}

  SessionStreamFactory Factory();
  // For later streams.
  void SetPeer(FakeSessionStream::Peer peer);
  void SetFirstFrame(v1::SessionResponse frame);

  FakeNetwork& network() { return network_; }
  std::size_t count() const;
  // Numbered from 0. Kept after the end of the stream.
  FakeSessionStream& at(std::size_t index) const;

 private:
  // Before the streams, whose destruction does not need it.
  FakeNetwork network_;
  mutable Mutex mutex_;
  FakeSessionStream::Peer peer_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::SessionResponse> first_frame_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<FakeSessionStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

// A first frame.
v1::SessionResponse Limits(std::uint32_t max_in_flight, std::uint32_t max_frame_bytes);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_CLIENT_TESTING_FAKE_SESSION_STREAMS_H_
