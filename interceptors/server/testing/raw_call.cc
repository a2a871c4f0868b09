#include "interceptors/server/testing/raw_call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace idempotency::internal {
namespace {

// RFC 9113, section 6.
constexpr std::uint8_t kDataFrame = 0x0;
constexpr std::uint8_t kHeadersFrame = 0x1;
constexpr std::uint8_t kResetFrame = 0x3;
constexpr std::uint8_t kSettingsFrame = 0x4;
constexpr std::uint8_t kGoAwayFrame = 0x7;
constexpr std::uint8_t kEndStream = 0x1;
constexpr std::uint8_t kEndHeaders = 0x4;
constexpr std::size_t kFrameHeaderBytes = 9;
constexpr int kTimeoutSeconds = 30;

std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint8_t stream,
                  const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame.push_back(static_cast<char>(payload.size() >> shift));
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  frame.append(3, '\0');
  frame.push_back(static_cast<char>(stream));
  return frame + payload;
}

// RFC 7541, section 6.2.2: a literal without indexing, with a new name, neither part
// Huffman-coded. Parts of up to 126 bytes.
std::string Header(const std::string& name, const std::string& value) {
  std::string field(1, '\0');
  field.push_back(static_cast<char>(name.size()));
  field += name;
  field.push_back(static_cast<char>(value.size()));
  return field + value;
}

std::string Message(const std::string& request) {
  std::string message(1, '\0');
  for (const int shift : {24, 16, 8, 0}) {
    message.push_back(static_cast<char>(request.size() >> shift));
  }
  return message + request;
}

class Socket {
 public:
  explicit Socket(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval timeout{kTimeoutSeconds, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the interface of sockets
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool connected() const { return connected_; }
  bool Send(const std::string& bytes) const {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // "" at the end, or when no data arrives.
  std::string Receive(std::size_t size) const {
    std::string bytes(size, '\0');
    for (std::size_t got = 0; got < size;) {
      const ssize_t more = recv(fd_, bytes.data() + got, size - got, 0);
      if (more <= 0) return "";
      got += static_cast<std::size_t>(more);
    }
    return bytes;
  }

 private:
  const int fd_;
  bool connected_ = false;
};

}  // namespace

bool RawCallGetsAMessage(int port, const std::string& path, const std::string& request,
                         const std::vector<std::pair<std::string, std::string>>& headers) {
  const Socket socket(port);
  if (!socket.connected()) return false;
  std::string fields = Header(":method", "POST") + Header(":scheme", "http") +
                       Header(":path", path) + Header(":authority", "localhost") +
                       Header("content-type", "application/grpc") + Header("te", "trailers");
  for (const auto& [name, value] : headers) fields += Header(name, value);
  if (!socket.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettingsFrame, 0, 0, "") +
                   Frame(kHeadersFrame, kEndHeaders, 1, fields) +
                   Frame(kDataFrame, kEndStream, 1, Message(request)))) {
    return false;
  }
  bool message = false;
  while (true) {
    const std::string head = socket.Receive(kFrameHeaderBytes);
    if (head.empty()) return message;
    const auto byte = [&head](std::size_t at) { return static_cast<std::uint8_t>(head[at]); };
    const std::size_t size = (std::size_t{byte(0)} << 16) | (std::size_t{byte(1)} << 8) | byte(2);
    if (size > 0 && socket.Receive(size).empty()) return message;
    const std::uint8_t type = byte(3);
    if (type == kDataFrame && size > 0) message = true;
    const bool ends = (type == kDataFrame || type == kHeadersFrame) && (byte(4) & kEndStream) != 0;
    if (ends || type == kResetFrame || type == kGoAwayFrame) return message;
  }
}

}  // namespace idempotency::internal
