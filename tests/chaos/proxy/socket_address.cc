#include "tests/chaos/proxy/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace idempotency::internal::chaos {
namespace {

constexpr int kBacklog = 512;

absl::Status Failed(const char* what, const SocketAddress& address) {
  return absl::UnavailableError(
      absl::StrCat(what, " ", address.ToString(), ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<SocketAddress> SocketAddress::Parse(const std::string& text) {
  SocketAddress address;
  const absl::Status bad =
      absl::InvalidArgumentError(absl::StrCat("neither IPV4:PORT nor unix:PATH: ", text));
  if (absl::StartsWith(text, "unix:")) {
    auto* const local = reinterpret_cast<sockaddr_un*>(&address.storage_);
    const std::string path = text.substr(5);
    if (path.empty() || path.size() >= sizeof local->sun_path) return bad;
    local->sun_family = AF_UNIX;
    std::memcpy(local->sun_path, path.data(), path.size());
    address.size_ = sizeof(sockaddr_un);
    return address;
  }
  const std::size_t colon = text.rfind(':');
  std::uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(text.substr(colon + 1), &port) ||
      port > 65535) {
    return bad;
  }
  auto* const inet = reinterpret_cast<sockaddr_in*>(&address.storage_);
  inet->sin_family = AF_INET;
  inet->sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, text.substr(0, colon).c_str(), &inet->sin_addr) != 1) {
    return bad;
  }
  address.size_ = sizeof(sockaddr_in);
  return address;
}

std::string SocketAddress::ToString() const {
  if (is_unix()) {
    return absl::StrCat("unix:", reinterpret_cast<const sockaddr_un*>(&storage_)->sun_path);
  }
  const auto* const inet = reinterpret_cast<const sockaddr_in*>(&storage_);
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &inet->sin_addr, text, sizeof text);
  return absl::StrCat(text, ":", ntohs(inet->sin_port));
}

absl::StatusOr<FileDescriptor> SocketAddress::NewSocket() const {
  FileDescriptor fd(socket(storage_.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return Failed("no socket for", *this);
  return fd;
}

absl::StatusOr<FileDescriptor> SocketAddress::Bind() const {
  absl::StatusOr<FileDescriptor> fd = NewSocket();
  if (!fd.ok()) return fd;
  if (is_unix()) {
    unlink(reinterpret_cast<const sockaddr_un*>(&storage_)->sun_path);
  } else {
    const int on = 1;
    setsockopt(fd->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (bind(fd->get(), reinterpret_cast<const sockaddr*>(&storage_), size_) != 0) {
    return Failed("cannot bind", *this);
  }
  return fd;
}

bool SocketAddress::has_port_0() const {
  return !is_unix() && reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port == 0;
}

absl::StatusOr<FileDescriptor> SocketAddress::Listen() const {
  absl::StatusOr<FileDescriptor> fd = Bind();
  if (!fd.ok()) return fd;
  if (has_port_0()) {
    // A socket keeps its port when it stops listening only if it requested that port. While the
    // first one holds it, no other socket gets it in between.
    const absl::StatusOr<SocketAddress> bound = BoundTo(fd->get());
    return bound.ok() ? bound->Listen() : bound.status();
  }
  if (listen(fd->get(), kBacklog) != 0) return Failed("cannot listen on", *this);
  return fd;
}

absl::StatusOr<FileDescriptor> SocketAddress::StartConnect() const {
  absl::StatusOr<FileDescriptor> fd = NewSocket();
  if (!fd.ok()) return fd;
  if (!is_unix()) {
    const int on = 1;
    setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (connect(fd->get(), reinterpret_cast<const sockaddr*>(&storage_), size_) != 0 &&
      errno != EINPROGRESS) {
    return Failed("cannot connect to", *this);
  }
  return fd;
}

absl::StatusOr<SocketAddress> SocketAddress::BoundTo(int socket) {
  SocketAddress address;
  address.size_ = sizeof address.storage_;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage_), &address.size_) != 0) {
    return absl::InternalError(absl::StrCat("getsockname: ", std::strerror(errno)));
  }
  return address;
}

}  // namespace idempotency::internal::chaos
