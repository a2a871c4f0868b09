#include "server/process/port_probe.h"

#include <pthread.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/files/file_descriptor.h"

namespace idempotency::internal {
namespace {

// The timeout is counted in as many waits, so that a process that was frozen
// meanwhile does not use it up at once.
constexpr int kSteps = 100;

// The pending result of connect().
bool IsRefused(const FileDescriptor& connection) {
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
         error == ECONNREFUSED;
}

}  // namespace

PortProbe::PortProbe(NetworkAddress address, const SocketAddress& bound, const Intervals& intervals,
                     std::function<std::uint64_t()> accepted,
                     std::function<void(const absl::Status&)> on_deaf)
    : address_(std::move(address)),
      bound_(bound),
      intervals_(intervals),
      accepted_(std::move(accepted)),
      on_deaf_(std::move(on_deaf)),
      thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "port-probe");
}

PortProbe::~PortProbe() {
  stop_.Stop();
  thread_.join();
}

void PortProbe::Run() {
  std::uint64_t seen = accepted_();
  while (stop_.WaitFor(intervals_.between)) {
    const std::uint64_t before = accepted_();
    if (before == seen && Probe(before) == Result::kDeaf) {
      return on_deaf_(absl::UnavailableError(absl::StrCat(
          address_.ToString(),
          " no longer accepts connections, although this process runs; restart idempotencyd")));
    }
    seen = accepted_();
  }
}

PortProbe::Result PortProbe::Probe(std::uint64_t before) {
  const FileDescriptor connection(
      socket(bound_.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // No descriptor for the probe itself: nothing is known.
  if (!connection.valid()) return Result::kUnknown;
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&bound_.address), bound_.size) !=
      0) {
    switch (errno) {
      case EINPROGRESS:
        break;
      case ECONNREFUSED:
      case ENOENT:
        return Result::kDeaf;
      case EAGAIN:
        // The queue of a unix socket is full; of TCP, there is no port for the probe.
        if (bound_.address.ss_family == AF_UNIX) break;
        return Result::kUnknown;
      default:
        return Result::kUnknown;
    }
  }
  for (int step = 0; step < kSteps; ++step) {
    if (accepted_() != before) return Result::kAccepts;
    if (IsRefused(connection)) return Result::kDeaf;
    if (!stop_.WaitFor(intervals_.timeout / kSteps)) return Result::kUnknown;
  }
  return accepted_() != before ? Result::kAccepts : Result::kDeaf;
}

}  // namespace idempotency::internal
