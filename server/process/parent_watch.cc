#include "server/process/parent_watch.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace idempotency::internal {
namespace {

// Not in the C libraries of all systems that have it.
int OpenProcess(pid_t pid) {
#ifdef SYS_pidfd_open
  return pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0)) : -1;
#else
  static_cast<void>(pid);
  return -1;
#endif
}

// True at the end of the input; drops what there is to read.
bool AtEnd(int input) {
  std::array<char, 4096> dropped;
  const ssize_t got = read(input, dropped.data(), dropped.size());
  return got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
}

}  // namespace

ParentWatch::ParentWatch(const Events& events, std::function<void()> on_end)
    : on_end_(std::move(on_end)),
      parent_(events.parent ? OpenProcess(getppid()) : -1),
      input_(events.stdin_end ? STDIN_FILENO : -1),
      ending_(eventfd(0, EFD_CLOEXEC)) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "parent");
    Run();
  });
}

ParentWatch::~ParentWatch() {
  const std::uint64_t one = 1;
  while (write(ending_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
  if (parent_ >= 0) close(parent_);
  close(ending_);
}

void ParentWatch::Run() {
  while (true) {
    // poll() leaves out descriptors below zero.
    std::array<pollfd, 3> fds = {pollfd{ending_, POLLIN, 0}, pollfd{parent_, POLLIN, 0},
                                 pollfd{input_, POLLIN, 0}};
    if (poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
    if (fds[0].revents != 0) return;
    if (fds[1].revents != 0 || (fds[2].revents != 0 && AtEnd(input_))) break;
  }
  on_end_();
}

}  // namespace idempotency::internal
