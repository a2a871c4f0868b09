#include "tests/support/raw_http2_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace idempotency::internal::testing {
namespace {

// RFC 9113, sections 6 and 7.
enum FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kRstStream = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
};
constexpr std::uint8_t kEndStream = 0x1;
constexpr std::uint8_t kAck = 0x1;
constexpr std::uint8_t kEndHeaders = 0x4;
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::size_t kFrameHeaderBytes = 9;
// A window begins with 65,535 bytes.
constexpr std::size_t kMaxSentBytes = 32 * 1024;
constexpr std::uint32_t kMoreWindow = 1 << 30;

void AppendBigEndian(std::uint32_t value, int bytes, std::string& out) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((value >> shift) & 0xFF));
  }
}

std::uint32_t BigEndian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char c : bytes) value = (value << 8) | static_cast<std::uint8_t>(c);
  return value;
}

std::string FrameOf(FrameType type, std::uint8_t flags, std::uint32_t stream,
                    std::string_view payload) {
  std::string frame;
  AppendBigEndian(static_cast<std::uint32_t>(payload.size()), 3, frame);
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  AppendBigEndian(stream, 4, frame);
  frame.append(payload);
  return frame;
}

// RFC 7541, sections 5.1 and 5.2: not Huffman-coded.
void AppendText(std::string_view text, std::string& block) {
  std::size_t length = text.size();
  if (length < 0x7F) {
    block.push_back(static_cast<char>(length));
  } else {
    block.push_back(0x7F);
    for (length -= 0x7F; length >= 0x80; length >>= 7) {
      block.push_back(static_cast<char>((length & 0x7F) | 0x80));
    }
    block.push_back(static_cast<char>(length));
  }
  block.append(text);
}

// Section 6.2.2: a literal without indexing, with a new name.
void AppendHeader(std::string_view name, std::string_view value, std::string& block) {
  block.push_back('\0');
  AppendText(name, block);
  AppendText(value, block);
}

}  // namespace

RawHttp2Client::RawHttp2Client(const std::string& address) : address_(address) {}

RawHttp2Client::~RawHttp2Client() { Disconnect(); }

RawHttp2Client::End RawHttp2Client::Call(std::string_view path, const Headers& headers,
                                         std::string_view message,
                                         std::chrono::milliseconds timeout) {
  if (sent_bytes_ > kMaxSentBytes) Disconnect();
  if (socket_ < 0 && !Connect()) return End::kConnectionLost;
  std::string block;
  AppendHeader(":method", "POST", block);
  AppendHeader(":scheme", "http", block);
  AppendHeader(":path", path, block);
  AppendHeader(":authority", address_, block);
  AppendHeader("te", "trailers", block);
  AppendHeader("content-type", "application/grpc", block);
  for (const auto& [name, value] : headers) AppendHeader(name, value, block);
  std::string data(1, '\0');
  AppendBigEndian(static_cast<std::uint32_t>(message.size()), 4, data);
  data.append(message);

  const std::uint32_t stream = next_stream_;
  next_stream_ += 2;
  sent_bytes_ += data.size();
  End end = End::kConnectionLost;
  if (Send(FrameOf(kHeaders, kEndHeaders, stream, block) +
           FrameOf(kData, kEndStream, stream, data))) {
    end = AwaitEnd(stream, std::chrono::steady_clock::now() + timeout);
  }
  if (end != End::kAnswered) Disconnect();
  return end;
}

bool RawHttp2Client::Connect() {
  const std::size_t colon = address_.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address_.substr(colon + 1))));
  inet_pton(AF_INET, address_.substr(0, colon).c_str(), &to.sin_addr);
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return false;
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::string window;
  AppendBigEndian(kMoreWindow, 4, window);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
      Send(std::string(kPreface) + FrameOf(kSettings, 0, 0, "") +
           FrameOf(kWindowUpdate, 0, 0, window))) {
    return true;
  }
  Disconnect();
  return false;
}

void RawHttp2Client::Disconnect() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  lost_ = false;
  next_stream_ = 1;
  sent_bytes_ = 0;
}

bool RawHttp2Client::Send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawHttp2Client::Receive(std::size_t bytes, Time deadline, std::string& into) {
  into.clear();
  while (into.size() < bytes) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd readable{socket_, POLLIN, 0};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) <= 0) return false;
    char buffer[4096];
    const ssize_t received = recv(socket_, buffer, std::min(sizeof buffer, bytes - into.size()), 0);
    if (received <= 0) {
      lost_ = true;
      return false;
    }
    into.append(buffer, static_cast<std::size_t>(received));
  }
  return true;
}

RawHttp2Client::End RawHttp2Client::AwaitEnd(std::uint32_t stream, Time deadline) {
  std::string header;
  std::string payload;
  while (Receive(kFrameHeaderBytes, deadline, header)) {
    const std::uint32_t length = BigEndian(header.substr(0, 3));
    const auto type = static_cast<std::uint8_t>(header[3]);
    const auto flags = static_cast<std::uint8_t>(header[4]);
    if (!Receive(length, deadline, payload)) break;
    if (type == kSettings && (flags & kAck) == 0 && !Send(FrameOf(kSettings, kAck, 0, ""))) break;
    if (type == kPing && (flags & kAck) == 0 && !Send(FrameOf(kPing, kAck, 0, payload))) break;
    if (BigEndian(header.substr(5, 4)) != stream) continue;
    if (type == kRstStream) return End::kAnswered;
    if ((type == kData || type == kHeaders) && (flags & kEndStream) != 0) return End::kAnswered;
  }
  return lost_ ? End::kConnectionLost : End::kNoAnswer;
}

}  // namespace idempotency::internal::testing
