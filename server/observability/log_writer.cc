#include "server/observability/log_writer.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

namespace idempotency::internal {
namespace {

// Signals are for other threads: this one may be older than the thread that waits for them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

LogWriter::LogWriter(int descriptor, Report report, std::size_t max_lines)
    : descriptor_(descriptor),
      report_(std::move(report)),
      max_lines_(max_lines),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "log");
    Run();
  });
}

LogWriter::~LogWriter() {
  Close(absl::ZeroDuration());
  close(stop_);
}

void LogWriter::Write(std::string line) {
  MutexLock lock(mutex_);
  if (closed_) return;
  if (lines_.size() >= max_lines_) {
    lines_.pop_front();
    ++left_out_;
  } else {
    pending_.fetch_add(1, std::memory_order_release);
  }
  lines_.push_back(std::move(line));
  changed_.NotifyAll();
}

bool LogWriter::Flush(absl::Duration timeout) {
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  while (pending() > 0) {
    if (!changed_.WaitUntil(lock, until)) return pending() == 0;
  }
  return true;
}

bool LogWriter::Close(absl::Duration timeout) {
  const bool flushed = Flush(timeout);
  {
    MutexLock lock(mutex_);
    if (closed_) return flushed;
    RequestEnd();
  }
  thread_.join();
  pending_.store(0);
  return flushed;
}

void LogWriter::Abandon() {
  MutexLock lock(mutex_);
  RequestEnd();
}

void LogWriter::RequestEnd() {
  closed_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(write(stop_, &one, sizeof(one)));
  changed_.NotifyAll();
}

void LogWriter::Run() {
  for (Next next = AwaitNext(); !next.text.empty(); next = AwaitNext()) {
    Written(next, WriteNow(next.text));
  }
}

LogWriter::Next LogWriter::AwaitNext() {
  Next next;
  MutexLock lock(mutex_);
  while (lines_.empty() && !closed_) changed_.Wait(lock);
  if (closed_) return next;
  if (cut_) next.text = "\n";
  next.left_out = std::exchange(left_out_, 0);
  if (next.left_out > 0) next.text += report_(next.left_out);
  next.report_bytes = next.text.size();
  next.text += lines_.front();
  lines_.pop_front();
  return next;
}

std::size_t LogWriter::WriteNow(std::string_view text) const {
  const std::size_t all = text.size();
  while (!text.empty()) {
    std::array<pollfd, 2> fds = {pollfd{descriptor_, POLLOUT, 0}, pollfd{stop_, POLLIN, 0}};
    if (poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
    if (fds[1].revents != 0) break;
    // A pipe that is ready takes this much at once.
    const ssize_t written =
        write(descriptor_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno != EINTR && errno != EAGAIN) break;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return all - text.size();
}

void LogWriter::Written(const Next& next, std::size_t bytes) {
  MutexLock lock(mutex_);
  if (bytes < next.text.size()) {
    ++left_out_;
    if (bytes < next.report_bytes) left_out_ += next.left_out;
  }
  if (bytes > 0) cut_ = next.text[bytes - 1] != '\n';
  pending_.fetch_sub(1, std::memory_order_release);
  changed_.NotifyAll();
}

}  // namespace idempotency::internal
