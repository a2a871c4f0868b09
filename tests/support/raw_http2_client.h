#ifndef IDEMPOTENCY_TESTS_SUPPORT_RAW_HTTP2_CLIENT_H_
#define IDEMPOTENCY_TESTS_SUPPORT_RAW_HTTP2_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace idempotency::internal::testing {

// A caller of gRPC servers without gRPC: sends data that gRPC's own clients refuse, any bytes in a
// header's value, and any bytes as a message. One connection, made again after a loss; one call at
// a time. Not thread-safe.
class RawHttp2Client {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;
  // The end of a call. The content of the answer is not checked.
  enum class End { kAnswered, kConnectionLost, kNoAnswer };

  // "127.0.0.1:PORT".
  explicit RawHttp2Client(const std::string& address);
  ~RawHttp2Client();
  RawHttp2Client(const RawHttp2Client&) = delete;
  RawHttp2Client& operator=(const RawHttp2Client&) = delete;

  // A unary call. The headers of one call may weigh 16,000 bytes at most, and so may
  // its message.
  End Call(std::string_view path, const Headers& headers, std::string_view message,
           std::chrono::milliseconds timeout = std::chrono::seconds(20));

 private:
  using Time = std::chrono::steady_clock::time_point;

  bool Connect();
  void Disconnect();
  bool Send(std::string_view bytes) const;
  // Receives exactly `bytes`; false if they do not arrive by `deadline`.
  bool Receive(std::size_t bytes, Time deadline, std::string& into);
  End AwaitEnd(std::uint32_t stream, Time deadline);

  const std::string address_;
  int socket_ = -1;
  bool lost_ = false;
  std::uint32_t next_stream_ = 1;
  // Data that was sent on this connection: the server's window is not checked.
  std::size_t sent_bytes_ = 0;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_RAW_HTTP2_CLIENT_H_
