#include "bench/minimal/daemon_session.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <cstdint>
#include <cstring>

namespace idempotency::internal::bench {
namespace {

// On the thread that delivers a frame's answers, operations gather until its last Done().
thread_local bool delivering = false;

}  // namespace

DaemonSession::DaemonSession(const std::string& address)
    : channel_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())), stub_(channel_) {
  context_.set_wait_for_ready(true);
  stub_.PrepareBidiStreamingCall(&context_, kSessionMethod, {}, this);
  AddHold();
  StartCall();
}

DaemonSession::~DaemonSession() {
  std::unique_lock<std::mutex> lock(mutex_);
  closing_ = true;
  lock.unlock();
  context_.TryCancel();
  RemoveHold();
  lock.lock();
  done_.wait(lock, [this] { return is_done_; });
}

void DaemonSession::Submit(absl::Span<Operation* const> operations) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Operation* operation : operations) {
      WriteOperation(reinterpret_cast<std::uintptr_t>(operation), *operation, gathered_);
    }
    gathered_count_ += operations.size();
    owed_ += operations.size();
  }
  if (!delivering) Proceed(/*read_ended=*/false);
}

void DaemonSession::Proceed(bool read_ended) {
  bool write = false;
  bool read = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) return;
    if (!writing_ && !gathered_.empty()) {
      writing_ = write = true;
      // Last, whether the daemon will have nothing else to do.
      gathered_.Number<bool>(gathered_count_ == 1 && owed_ == 1);
      gathered_count_ = 0;
      written_ = gathered_.Take();
    }
    if (read_ended) reading_ = false;
    if (!reading_ && owed_ > 0) reading_ = read = true;
  }
  if (write) StartWrite(&written_);
  if (read) StartRead(&read_);
}

void DaemonSession::OnWriteDone(bool ok) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    if (!ok && !closing_) Die("the daemon is gone");
  }
  Proceed(/*read_ended=*/false);
}

void DaemonSession::OnReadDone(bool ok) {
  if (!ok) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closing_) Die("the daemon has ended the session");
    return;
  }
  std::size_t answered = 0;
  delivering = true;
  for (FrameReader frame(read_); !frame.empty(); ++answered) {
    const auto cookie = frame.Number<std::uint64_t>();
    Operation* operation = nullptr;
    static_assert(sizeof(void*) == sizeof(cookie));
    std::memcpy(&operation, &cookie, sizeof(cookie));
    ReadAnswer(frame, *operation);
    operation->Done();
  }
  delivering = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    owed_ -= answered;
  }
  Proceed(/*read_ended=*/true);
}

void DaemonSession::OnDone(const grpc::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!closing_) Die("the session with the daemon: " + status.error_message());
  is_done_ = true;
  done_.notify_all();
}

}  // namespace idempotency::internal::bench
