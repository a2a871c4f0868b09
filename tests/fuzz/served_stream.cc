#include "tests/fuzz/served_stream.h"

#include <grpcpp/support/slice.h>

#include <chrono>
#include <utility>

#include "tests/fuzz/property.h"

namespace idempotency::internal::fuzz {
namespace {

constexpr std::chrono::seconds kPatience(20);

std::string TextOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  Require(buffer.Dump(&slices).ok(), "a frame can be read");
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

}  // namespace

ServedStream::ServedStream(Reactor* reactor) : reactor_(reactor) { BindReactor(reactor); }

bool ServedStream::SendFrame(std::string_view frame) {
  grpc::ByteBuffer* const message = cancelled_ ? nullptr : TakeRead();
  if (message == nullptr) return false;
  const grpc::Slice slice(frame.data(), frame.size());
  *message = grpc::ByteBuffer(&slice, 1);
  reactor_->OnReadDone(true);
  return true;
}

bool ServedStream::HalfClose() {
  if (TakeRead() == nullptr) return false;
  reactor_->OnReadDone(false);
  return true;
}

void ServedStream::Cancel() {
  if (std::exchange(cancelled_, true)) return;
  reactor_->OnCancel();
}

grpc::Status ServedStream::AwaitEnd() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  grpc::Status status;
  for (bool finished = false; !finished;) {
    HalfClose();
    MutexLock lock(mutex_);
    while (read_ == nullptr && write_ == nullptr && !finished_) {
      Require(changed_.WaitUntil(lock, deadline), "a stream goes on, or ends");
    }
    finished = finished_;
    status = status_;
  }
  reactor_->OnDone();
  return status;
}

std::vector<std::string> ServedStream::TakeFrames() { return std::exchange(frames_, {}); }

grpc::ByteBuffer* ServedStream::TakeRead() {
  while (CompleteWrite()) {
  }
  MutexLock lock(mutex_);
  return std::exchange(read_, nullptr);
}

bool ServedStream::CompleteWrite() {
  {
    MutexLock lock(mutex_);
    const grpc::ByteBuffer* const written = std::exchange(write_, nullptr);
    if (written == nullptr) return false;
    if (!cancelled_) frames_.push_back(TextOf(*written));
  }
  reactor_->OnWriteDone(!cancelled_);
  return true;
}

void ServedStream::Finish(grpc::Status status) {
  MutexLock lock(mutex_);
  Require(!finished_, "a stream ends once");
  Require(write_ == nullptr && read_ == nullptr, "a stream ends when nothing is under way");
  finished_ = true;
  status_ = std::move(status);
  changed_.NotifyAll();
}

void ServedStream::Read(grpc::ByteBuffer* message) {
  MutexLock lock(mutex_);
  Require(read_ == nullptr && !finished_, "one frame is read at a time");
  read_ = message;
  changed_.NotifyAll();
}

void ServedStream::Write(const grpc::ByteBuffer* message, grpc::WriteOptions) {
  MutexLock lock(mutex_);
  Require(write_ == nullptr && !finished_, "one frame is written at a time");
  write_ = message;
  changed_.NotifyAll();
}

void ServedStream::WriteAndFinish(const grpc::ByteBuffer*, grpc::WriteOptions, grpc::Status) {
  Require(false, "a session ends after its last frame");
}

}  // namespace idempotency::internal::fuzz
