#include "client/testing/fake_streams.h"

#include <cstdlib>
#include <iostream>
#include <utility>

namespace idempotency::testing {
namespace {

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

FakeStream::FakeStream(FakeNetwork& network, Events& events, Peer peer)
    : network_(network), events_(events), peer_(std::move(peer)) {}

FakeStream::~FakeStream() {
  MutexLock lock(mutex_);
  Check(!started_ || ended_, "destroyed before its end");
}

void FakeStream::Say(v1::SessionResponse frame) {
  MutexLock lock(mutex_);
  if (status_) return;
  incoming_.push_back(std::move(frame));
  Deliver();
}

void FakeStream::End(grpc::Status status) {
  MutexLock lock(mutex_);
  if (status_) return;
  status_ = std::move(status);
  incoming_.clear();
  if (!started_) return;
  if (writing_) EndWrite(false);
  Deliver();
  EndIfDone();
}

void FakeStream::HoldWrites() {
  MutexLock lock(mutex_);
  hold_writes_ = true;
}

void FakeStream::ReleaseWrites() {
  MutexLock lock(mutex_);
  hold_writes_ = false;
  if (writing_) EndWrite(true);
}

std::vector<v1::SessionRequest> FakeStream::frames() const {
  MutexLock lock(mutex_);
  return frames_;
}

bool FakeStream::half_closed() const {
  MutexLock lock(mutex_);
  return half_closed_;
}

bool FakeStream::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

void FakeStream::Start() {
  MutexLock lock(mutex_);
  Check(!started_, "Start twice");
  started_ = true;
  reading_ = true;
  if (status_ && writing_) EndWrite(false);
  Deliver();
}

void FakeStream::Read() {
  MutexLock lock(mutex_);
  Check(!reading_, "Read while reading");
  reading_ = true;
  Deliver();
}

void FakeStream::Write(std::string frame) {
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

void FakeStream::HalfClose() {
  MutexLock lock(mutex_);
  Check(!writing_ && !half_closed_ && !released_, "HalfClose while writing, or after the last");
  writing_ = true;
  half_closed_ = true;
  EndWrite(!status_);
}

void FakeStream::Cancel() {
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
  }
  End(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled"));
}

void FakeStream::Release() {
  MutexLock lock(mutex_);
  Check(!writing_ && !released_, "Release while writing, or twice");
  released_ = true;
  EndIfDone();
}

void FakeStream::Post(std::function<void()> event) {
  ++events_under_way_;
  network_.Post([this, event = std::move(event)] {
    event();
    MutexLock lock(mutex_);
    --events_under_way_;
    EndIfDone();
  });
}

void FakeStream::EndWrite(bool ok) {
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

void FakeStream::Deliver() {
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

void FakeStream::EndIfDone() {
  if (!status_ || !released_ || reading_ || events_under_way_ > 0 || ended_) return;
  ended_ = true;
  network_.Post([this, status = *status_] { events_.OnEnd(*this, status); });
}

SessionStreamFactory FakeStreams::Factory() {
  return [this](SessionStream::Events& events) {
    MutexLock lock(mutex_);
    streams_.push_back(std::make_shared<FakeStream>(network_, events, peer_));
    return streams_.back();
  };
}

void FakeStreams::SetPeer(FakeStream::Peer peer) {
  MutexLock lock(mutex_);
  peer_ = std::move(peer);
}

std::size_t FakeStreams::count() const {
  MutexLock lock(mutex_);
  return streams_.size();
}

FakeStream& FakeStreams::at(std::size_t index) const {
  MutexLock lock(mutex_);
  return *streams_.at(index);
}

v1::SessionResponse Limits(std::uint32_t max_in_flight, std::uint32_t max_frame_bytes) {
  v1::SessionResponse frame;
  frame.mutable_limits()->set_max_in_flight(max_in_flight);
  frame.mutable_limits()->set_max_frame_bytes(max_frame_bytes);
  return frame;
}

}  // namespace idempotency::testing
