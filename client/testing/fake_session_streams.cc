#include "client/testing/fake_session_streams.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <utility>

namespace idempotency::internal::testing {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

void Check(bool condition, const char* rule) {
  if (condition) return;
  std::cerr << "a stream was used against its rules: " << rule << std::endl;
  std::abort();
}

}  // namespace

FakeNetwork::FakeNetwork(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

FakeNetwork::~FakeNetwork() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void FakeNetwork::Post(std::function<void()> task) {
  MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.NotifyAll();
}

void FakeNetwork::Settle() {
  MutexLock lock(mutex_);
  while (!tasks_.empty() || running_ > 0) changed_.Wait(lock);
}

void FakeNetwork::Run() {
  for (;;) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (tasks_.empty() && !stopping_) changed_.Wait(lock);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      ++running_;
    }
    task();
    task = nullptr;
    MutexLock lock(mutex_);
    --running_;
    changed_.NotifyAll();
  }
}

FakeSessionStream::FakeSessionStream(FakeNetwork& network, Events& events, Peer peer)
    : network_(network), events_(events), peer_(std::move(peer)) {}

FakeSessionStream::~FakeSessionStream() {
  MutexLock lock(mutex_);
  Check(!started_ || ended_, "destroyed before its end");
}

void FakeSessionStream::ServerSends(v1::SessionResponse frame) {
  MutexLock lock(mutex_);
  if (status_) return;
  incoming_.push_back(std::move(frame));
  Deliver();
}

void FakeSessionStream::End(grpc::Status status) {
  MutexLock lock(mutex_);
  if (status_) return;
  status_ = std::move(status);
  incoming_.clear();
  if (!started_) return;
  if (writing_) EndWrite(false);
  Deliver();
  EndIfDone();
}

void FakeSessionStream::HadNoConnection() {
  MutexLock lock(mutex_);
  had_connection_ = false;
}

bool FakeSessionStream::had_connection() const {
  MutexLock lock(mutex_);
  return had_connection_;
}

void FakeSessionStream::HoldWrites() {
  MutexLock lock(mutex_);
  hold_writes_ = true;
}

void FakeSessionStream::ReleaseWrites() {
  MutexLock lock(mutex_);
  hold_writes_ = false;
  if (writing_) EndWrite(true);
}

std::vector<v1::SessionRequest> FakeSessionStream::frames() const {
  MutexLock lock(mutex_);
  return frames_;
}

bool FakeSessionStream::half_closed() const {
  MutexLock lock(mutex_);
  return half_closed_;
}

bool FakeSessionStream::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

bool FakeSessionStream::reading() const {
  MutexLock lock(mutex_);
  return reading_;
}

bool FakeSessionStream::AwaitRead() const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mutex_);
  while (!reading_ && read_began_.WaitUntil(lock, deadline)) {
  }
  return reading_;
}

void FakeSessionStream::Start() {
  MutexLock lock(mutex_);
  Check(!started_, "Start twice");
  started_ = true;
  reading_ = true;
  if (status_ && writing_) EndWrite(false);
  Deliver();
}

void FakeSessionStream::Read() {
  MutexLock lock(mutex_);
  Check(!reading_ && !released_, "Read while reading, or after the last write");
  reading_ = true;
  read_began_.NotifyAll();
  Deliver();
}

void FakeSessionStream::Write(std::string frame) {
  v1::SessionRequest request;
  Check(request.ParseFromString(frame), "a frame that does not parse");
  Check(request.operations_size() > 0, "an empty frame");
  MutexLock lock(mutex_);
  Check(!writing_ && !half_closed_ && !released_, "Write while writing, or after the last");
  writing_ = true;
  frames_.push_back(request);
  if (status_) {
    if (started_) EndWrite(false);
    return;
  }
  if (peer_) Post([this, request = std::move(request)] { peer_(*this, request); });
  if (!hold_writes_) EndWrite(true);
}

void FakeSessionStream::HalfClose() {
  MutexLock lock(mutex_);
  Check(!writing_ && !half_closed_ && !released_, "HalfClose while writing, or after the last");
  writing_ = true;
  half_closed_ = true;
  EndWrite(!status_);
}

void FakeSessionStream::Cancel() {
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
  }
  End(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled"));
}

void FakeSessionStream::Release() {
  MutexLock lock(mutex_);
  Check(!writing_ && !released_, "Release while writing, or twice");
  released_ = true;
  EndIfDone();
}

void FakeSessionStream::Post(std::function<void()> event) {
  ++events_under_way_;
  network_.Post([this, event = std::move(event)] {
    event();
    MutexLock lock(mutex_);
    --events_under_way_;
    EndIfDone();
  });
}

void FakeSessionStream::EndWrite(bool ok) {
  if (ending_write_) return;
  ending_write_ = true;
  Post([this, ok] {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      ending_write_ = false;
    }
    events_.OnWritten(*this, ok);
  });
}

void FakeSessionStream::Deliver() {
  if (!started_ || !reading_) return;
  if (status_) {
    reading_ = false;
    Post([this] { events_.OnReadEnd(*this); });
  } else if (!incoming_.empty()) {
    reading_ = false;
    Post([this, frame = std::move(incoming_.front())] { events_.OnFrame(*this, frame); });
    incoming_.pop_front();
  }
}

void FakeSessionStream::EndIfDone() {
  if (!status_ || !released_ || reading_ || events_under_way_ > 0 || ended_) return;
  ended_ = true;
  network_.Post([this, status = *status_] { events_.OnEnd(*this, status); });
}

SessionStreamFactory FakeSessionStreams::Factory() {
  return [this](SessionStream::Events& events) {
    MutexLock lock(mutex_);
    streams_.push_back(std::make_shared<FakeSessionStream>(network_, events, peer_));
    if (first_frame_) streams_.back()->ServerSends(*first_frame_);
    return streams_.back();
  };
}

void FakeSessionStreams::SetPeer(FakeSessionStream::Peer peer) {
  MutexLock lock(mutex_);
  peer_ = std::move(peer);
}

void FakeSessionStreams::SetFirstFrame(v1::SessionResponse frame) {
  MutexLock lock(mutex_);
  first_frame_ = std::move(frame);
}

std::size_t FakeSessionStreams::count() const {
  MutexLock lock(mutex_);
  return streams_.size();
}

FakeSessionStream& FakeSessionStreams::at(std::size_t index) const {
  MutexLock lock(mutex_);
  return *streams_.at(index);
}

v1::SessionResponse Limits(std::uint32_t max_in_flight, std::uint32_t max_frame_bytes) {
  v1::SessionResponse frame;
  frame.mutable_limits()->set_max_in_flight(max_in_flight);
  frame.mutable_limits()->set_max_frame_bytes(max_frame_bytes);
  return frame;
}

}  // namespace idempotency::internal::testing
