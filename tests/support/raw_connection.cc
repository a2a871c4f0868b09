#include "tests/support/raw_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace idempotency::internal::testing {
namespace {

sockaddr_in Address(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// HTTP/2's frames (RFC 9113, section 6).
constexpr unsigned char kData = 0;
constexpr unsigned char kHeaders = 1;
constexpr unsigned char kRstStream = 3;
constexpr unsigned char kSettings = 4;
constexpr unsigned char kPing = 6;
constexpr unsigned char kGoAway = 7;
constexpr unsigned char kWindowUpdate = 8;
constexpr unsigned char kAck = 1;
constexpr unsigned char kEndHeaders = 4;
constexpr std::int64_t kMaxFrameBytes = 16'384;
constexpr std::size_t kFrameHeaderBytes = 9;
constexpr std::size_t kSettingBytes = 6;
constexpr std::uint32_t kInitialWindowSetting = 4;

std::string BigEndian(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

std::uint32_t FromBigEndian(const std::string& text) {
  std::uint32_t value = 0;
  for (const char c : text) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::string Frame(unsigned char type, unsigned char flags, std::uint32_t stream,
                  const std::string& payload) {
  return BigEndian(static_cast<std::uint32_t>(payload.size()), 3) + static_cast<char>(type) +
         static_cast<char>(flags) + BigEndian(stream, 4) + payload;
}

// HPACK: a literal that is not indexed. Both are shorter than 127 bytes.
std::string Header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

std::string CallHeaders(const std::string& path) {
  return Header(":method", "POST") + Header(":scheme", "http") + Header(":path", path) +
         Header(":authority", "here") + Header("te", "trailers") +
         Header("content-type", "application/grpc");
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

bool RawConnection::ClosesWithin(absl::Duration time) {
  pollfd waited{descriptor_, POLLRDHUP, 0};
  return poll(&waited, 1, static_cast<int>(absl::ToInt64Milliseconds(time))) == 1;
}

bool RawConnection::AwaitReset() {
  pollfd waited{descriptor_, POLLRDHUP, 0};
  return poll(&waited, 1, 30'000) == 1 && (waited.revents & (POLLERR | POLLHUP)) != 0;
}

bool RawConnection::BeginHttp2() {
  if (!Send(kPreface + Frame(kSettings, 0, 0, ""))) return false;
  const std::string header = Receive(9);
  return header.size() == 9 && header[3] == 4;
}

bool RawConnection::TakeFrame(Windows& windows) {
  const std::string header = Receive(kFrameHeaderBytes);
  if (header.size() != kFrameHeaderBytes) return false;
  const auto type = static_cast<unsigned char>(header[3]);
  const bool ack = (static_cast<unsigned char>(header[4]) & kAck) != 0;
  const bool of_connection = FromBigEndian(header.substr(5)) == 0;
  const std::string payload = Receive(FromBigEndian(header.substr(0, 3)));
  switch (type) {
    case kSettings:
      if (ack) return true;
      for (std::size_t at = 0; at + kSettingBytes <= payload.size(); at += kSettingBytes) {
        if (FromBigEndian(payload.substr(at, 2)) != kInitialWindowSetting) continue;
        const std::int64_t initial = FromBigEndian(payload.substr(at + 2, 4));
        windows.stream += initial - std::exchange(windows.initial, initial);
      }
      return Send(Frame(kSettings, kAck, 0, ""));
    case kPing:
      return ack || Send(Frame(kPing, kAck, 0, payload));
    case kWindowUpdate:
      (of_connection ? windows.connection : windows.stream) += FromBigEndian(payload);
      return true;
    // An answer would begin with headers.
    case kHeaders:
    case kRstStream:
    case kGoAway:
      return false;
    default:
      return true;
  }
}

bool RawConnection::IsClosedForCalls(const std::string& path, int calls) {
  const std::string headers = CallHeaders(path);
  for (int i = 0; i < calls; ++i) {
    const auto stream = static_cast<std::uint32_t>(2 * i + 1);
    if (!Send(Frame(kHeaders, kEndHeaders, stream, headers))) return true;
  }
  return ClosesWithin(absl::Seconds(30));
}

bool RawConnection::SendUnfinishedMessage(const std::string& path, std::size_t bytes) {
  const std::string headers = CallHeaders(path);
  // The message's length, which is more than the bytes that follow.
  const std::string prefix =
      std::string(1, '\0') + BigEndian(static_cast<std::uint32_t>(bytes) + 1, 4);
  if (!Send(kPreface + Frame(kSettings, 0, 0, "") + Frame(kHeaders, kEndHeaders, 1, headers) +
            Frame(kData, 0, 1, prefix))) {
    return false;
  }
  Windows windows;
  windows.connection -= static_cast<std::int64_t>(prefix.size());
  windows.stream -= static_cast<std::int64_t>(prefix.size());
  auto left = static_cast<std::int64_t>(bytes);
  while (left > 0) {
    const std::int64_t most = std::min({left, windows.connection, windows.stream, kMaxFrameBytes});
    if (most <= 0) {
      if (!TakeFrame(windows)) return false;
      continue;
    }
    if (!Send(Frame(kData, 0, 1, std::string(static_cast<std::size_t>(most), 'x')))) return false;
    left -= most;
    windows.connection -= most;
    windows.stream -= most;
  }
  return true;
}

bool RawConnection::CallHasEnded() {
  pollfd readable{descriptor_, POLLIN, 0};
  Windows ignored;
  while (poll(&readable, 1, 0) == 1) {
    if (!TakeFrame(ignored)) return true;
  }
  return false;
}

}  // namespace idempotency::internal::testing
