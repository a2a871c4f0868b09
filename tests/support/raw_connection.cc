#include "tests/support/raw_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace idempotency::testing {
namespace {

sockaddr_in Address(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

}  // namespace

RawConnection::RawConnection(const std::string& address, const std::string& from)
    : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  if (!absl::SimpleAtoi(parts.second, &port)) return;
  const timeval limit{30, 0};
  setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  const sockaddr_in source = Address(from, 0);
  const sockaddr_in target = Address(parts.first, port);
  connected_ =
      bind(descriptor_, reinterpret_cast<const sockaddr*>(&source), sizeof(source)) == 0 &&
      connect(descriptor_, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) == 0;
}

RawConnection::RawConnection(RawConnection&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), connected_(other.connected_) {}

RawConnection::~RawConnection() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool RawConnection::Send(const std::string& bytes) {
  return send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

void RawConnection::KeepFewBytes() {
  const int few = 1;
  setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
}

std::string RawConnection::Receive(std::size_t bytes) {
  std::string received;
  std::array<char, 4096> buffer{};
  while (received.size() < bytes) {
    const ssize_t got =
        recv(descriptor_, buffer.data(), std::min(buffer.size(), bytes - received.size()), 0);
    if (got <= 0) break;
    received.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return received;
}

bool RawConnection::AwaitClose() {
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = recv(descriptor_, buffer.data(), buffer.size(), 0)) > 0) {
  }
  return got == 0 || errno == ECONNRESET;
}

bool RawConnection::AwaitReset() {
  pollfd waited{descriptor_, POLLRDHUP, 0};
  return poll(&waited, 1, 30'000) == 1 && (waited.revents & (POLLERR | POLLHUP)) != 0;
}

bool RawConnection::BeginHttp2() {
  constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  // A SETTINGS frame without settings.
  const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
  if (!Send(kPreface + settings)) return false;
  const std::string header = Receive(9);
  return header.size() == 9 && header[3] == 4;
}

}  // namespace idempotency::testing
