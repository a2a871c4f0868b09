#include "server/process/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace idempotency::internal {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

FileDescriptor Open(int family) {
  return FileDescriptor(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool Set(const FileDescriptor& socket, int level, int option, int value) {
  return setsockopt(socket.get(), level, option, &value, sizeof(value)) == 0;
}

// The errno of the failure, or 0.
int BindAndListen(const FileDescriptor& socket, const sockaddr* address, socklen_t size) {
  if (bind(socket.get(), address, size) != 0) return errno;
  return listen(socket.get(), SOMAXCONN) == 0 ? 0 : errno;
}

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // NetworkAddress::Parse has checked the length.
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

// True if a process listens there.
bool Answers(const sockaddr_un& address) {
  const FileDescriptor probe = Open(AF_UNIX);
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
         errno == EAGAIN;
}

bool IsSocket(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode);
}

SocketAddress NameOf(const FileDescriptor& socket) {
  SocketAddress name;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name.address), &name.size);
  return name;
}

std::uint16_t PortOf(const FileDescriptor& socket) {
  const SocketAddress name = NameOf(socket);
  const auto* const bound = &name.address;
  return ntohs(bound->ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(bound)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(bound)->sin_port);
}

void SetPort(sockaddr* address, std::uint16_t port) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  }
}

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

}  // namespace

ListeningSockets::ListeningSockets(NetworkAddress address) : address_(std::move(address)) {}

absl::StatusOr<ListeningSockets> ListeningSockets::Bind(const NetworkAddress& address,
                                                        absl::string_view purpose) {
  ListeningSockets made(address);
  const std::string why = address.unix_path.empty() ? made.BindHost() : made.BindUnix();
  if (!why.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address.ToString(), purpose, ": ", why));
  }
  return made;
}

ListeningSockets::~ListeningSockets() {
  // Moved, or never bound: the file may be another process's.
  if (!sockets_.empty() && !address_.unix_path.empty()) unlink(address_.unix_path.c_str());
}

SocketAddress ListeningSockets::Bound() const { return NameOf(sockets_.front()); }

std::string ListeningSockets::BindUnix() {
  const sockaddr_un address = UnixAddress(address_.unix_path);
  if (IsSocket(address_.unix_path)) {
    if (Answers(address)) return "another process listens there";
    unlink(address_.unix_path.c_str());
  }
  FileDescriptor socket = Open(AF_UNIX);
  const int error =
      socket.valid()
          ? BindAndListen(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address))
          : errno;
  if (error != 0) return std::strerror(error);
  sockets_.push_back(std::move(socket));
  return "";
}

std::string ListeningSockets::BindHost() {
  // One socket of IPv6 takes both where the machine has it.
  if (IsWildcard(address_.host)) {
    FileDescriptor socket = Open(AF_INET6);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    any.sin6_port = htons(address_.port);
    if (socket.valid() && Set(socket, SOL_SOCKET, SO_REUSEADDR, 1) &&
        Set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0) &&
        BindAndListen(socket, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0) {
      address_.port = PortOf(socket);
      sockets_.push_back(std::move(socket));
      return "";
    }
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  const int unknown = getaddrinfo(address_.host.c_str(), nullptr, &hints, &list);
  if (unknown != 0) return gai_strerror(unknown);
  const Addresses found(list, &freeaddrinfo);
  int error = EADDRNOTAVAIL;
  for (addrinfo* next = found.get(); next != nullptr; next = next->ai_next) {
    SetPort(next->ai_addr, address_.port);
    FileDescriptor socket = Open(next->ai_family);
    if (!socket.valid()) {
      error = errno;
      continue;
    }
    // Lets a daemon that starts again have the port while old connections end.
    Set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (next->ai_family == AF_INET6) Set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (const int failed = BindAndListen(socket, next->ai_addr, next->ai_addrlen); failed != 0) {
      error = failed;
      continue;
    }
    address_.port = PortOf(socket);
    sockets_.push_back(std::move(socket));
  }
  if (!sockets_.empty()) return "";
  return absl::StrCat(std::strerror(error),
                      ": it may be in use, or not an address of this machine");
}

}  // namespace idempotency::internal
