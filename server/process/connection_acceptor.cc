#include "server/process/connection_acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/limits.h"

namespace idempotency::internal {
namespace {

// Connections that are taken from one socket until the others have their turn.
constexpr int kConnectionsPerTurn = 64;
// The listening sockets stay readable while connections cannot be taken.
constexpr int kPauseMs = 50;

FileDescriptor MakeSpare() { return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

void SetOptions(const FileDescriptor& socket, const sockaddr_storage& peer) {
  if (peer.ss_family == AF_UNIX) return;
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // Bytes that a lost client does not acknowledge end the connection.
  const auto timeout_ms = static_cast<unsigned>(absl::ToInt64Milliseconds(limits::kPeerTimeout));
  setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(ListeningSockets sockets,
                                       const ConnectionTable::Limits& limits, Callbacks callbacks,
                                       Observer& observer)
    : sockets_(std::move(sockets)),
      callbacks_(std::move(callbacks)),
      observer_(observer),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      table_(limits),
      spare_(MakeSpare()),
      thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "acceptor");
}

ConnectionAcceptor::~ConnectionAcceptor() {
  const std::uint64_t one = 1;
  static_cast<void>(write(stop_.get(), &one, sizeof(one)));
  thread_.join();
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> polled;
  for (const FileDescriptor& socket : sockets_.sockets()) {
    polled.push_back({socket.get(), POLLIN, 0});
  }
  polled.push_back({stop_.get(), POLLIN, 0});
  pollfd& stop = polled.back();
  while (true) {
    if (std::exchange(out_of_resources_, false)) {
      poll(&stop, 1, kPauseMs);
    } else {
      poll(polled.data(), polled.size(), -1);
    }
    if (stop.revents != 0) return;
    for (std::size_t i = 0; i + 1 < polled.size(); ++i) {
      if (!AcceptFrom(polled[i].fd)) return;
    }
  }
}

bool ConnectionAcceptor::AcceptFrom(int listening_socket) {
  for (int i = 0; i < kConnectionsPerTurn; ++i) {
    switch (Accept(listening_socket)) {
      case Outcome::kConnection:
        break;
      case Outcome::kNoneLeft:
        return true;
      case Outcome::kNoResources:
        out_of_resources_ = true;
        Shed(listening_socket);
        return true;
      case Outcome::kFailed:
        callbacks_.failed(absl::UnavailableError(
            absl::StrCat("cannot accept connections on ", sockets_.address().ToString(), ": ",
                         std::strerror(errno), "; restart idempotencyd")));
        return false;
    }
  }
  return true;
}

ConnectionAcceptor::Outcome ConnectionAcceptor::Accept(int listening_socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  FileDescriptor socket(accept4(listening_socket, reinterpret_cast<sockaddr*>(&peer), &size,
                                SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.valid()) {
    accepted_.fetch_add(1, std::memory_order_relaxed);
    TakeConnection(std::move(socket), peer, listening_socket);
    return Outcome::kConnection;
  }
  switch (errno) {
    case EAGAIN:
      return Outcome::kNoneLeft;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return Outcome::kNoResources;
    case EBADF:
    case EFAULT:
    case EINVAL:
    case ENOTSOCK:
    case EOPNOTSUPP:
      return Outcome::kFailed;
    default:
      // An error of that connection, which accept() reports in its stead.
      return Outcome::kConnection;
  }
}

ConnectionTable::Verdict ConnectionAcceptor::Admit(int socket, const sockaddr_storage& peer) {
  MutexLock lock(mutex_);
  return table_.Admit(socket, peer);
}

std::vector<std::string> ConnectionAcceptor::RecentPeers() {
  MutexLock lock(mutex_);
  std::vector<std::string> peers;
  for (const RemoteAddress& remote : table_.Recent()) peers.push_back(TextOf(remote));
  return peers;
}

void ConnectionAcceptor::CloseForStreams(const RemoteAddress& remote) {
  {
    MutexLock lock(mutex_);
    if (!table_.ShutDown(remote)) return;
  }
  observer_.ConnectionRefused(ConnectionRefusal::kStreams);
}

void ConnectionAcceptor::TakeConnection(FileDescriptor socket, const sockaddr_storage& peer,
                                        int listening_socket) {
  switch (Admit(socket.get(), peer)) {
    case ConnectionTable::Verdict::kAdmitted:
      SetOptions(socket, peer);
      callbacks_.connected(socket.Release(), listening_socket);
      return;
    case ConnectionTable::Verdict::kFull:
      return observer_.ConnectionRefused(ConnectionRefusal::kLimit);
    case ConnectionTable::Verdict::kPeerFull:
      return observer_.ConnectionRefused(ConnectionRefusal::kPeerLimit);
    case ConnectionTable::Verdict::kPenalised:
      return observer_.ConnectionRefused(ConnectionRefusal::kStreams);
  }
}

void ConnectionAcceptor::Shed(int listening_socket) {
  spare_.Close();
  {
    const FileDescriptor shed(
        accept4(listening_socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (shed.valid()) {
      accepted_.fetch_add(1, std::memory_order_relaxed);
      observer_.ConnectionRefused(ConnectionRefusal::kNoDescriptor);
    }
  }
  // With the number that is free again.
  spare_ = MakeSpare();
}

}  // namespace idempotency::internal
