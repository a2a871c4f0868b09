#include "server/process/signal_thread.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace idempotency::internal {

SignalThread::SignalThread(std::function<void(int)> on_first) : on_first_(std::move(on_first)) {
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  ending_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "signals");
    Run();
  });
}

SignalThread::~SignalThread() {
  const std::uint64_t one = 1;
  while (write(ending_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
  close(signals_);
  close(ending_);
}

void SignalThread::Run() {
  bool seen = false;
  while (true) {
    std::array<pollfd, 2> fds = {pollfd{signals_, POLLIN, 0}, pollfd{ending_, POLLIN, 0}};
    if (poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof(info)) != sizeof(info)) continue;
    const int number = static_cast<int>(info.ssi_signo);
    if (seen) _exit(128 + number);
    seen = true;
    on_first_(number);
  }
}

}  // namespace idempotency::internal
