#ifndef IDEMPOTENCY_TESTS_SUPPORT_RAW_CONNECTION_H_
#define IDEMPOTENCY_TESTS_SUPPORT_RAW_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace idempotency::internal::testing {

// A TCP connection without a protocol library, for actions of no well-behaved client. Closed with
// the object. Thread-compatible.
class RawConnection {
 public:
  // To "IPV4:PORT", from another address of this machine, such as 127.0.0.2.
  explicit RawConnection(const std::string& address, const std::string& from = "127.0.0.1");
  ~RawConnection();
  RawConnection(RawConnection&& other) noexcept;
  RawConnection& operator=(RawConnection&&) = delete;

  // False if it could not be connected, or nothing could be sent.
  bool connected() const { return connected_; }
  bool Send(const std::string& bytes);
  // Makes the system keep few received and unread bytes.
  void KeepFewBytes();
  // Up to `bytes`, as they arrive; fewer at the end of the connection, or after 30 s.
  std::string Receive(std::size_t bytes);
  // Waits up to 30 s for the other side to close it.
  bool AwaitClose();
  // Whether the other side closes it within this time; what it sends is not read.
  bool ClosesWithin(absl::Duration time);
  // Waits up to 30 s, without reading, for the other side to cut it off.
  bool AwaitReset();
  // Begins HTTP/2, and waits for the server to do the same.
  bool BeginHttp2();
  // Replaces that: begins a gRPC call, and sends `bytes` bytes of a message that never ends, as the
  // server's windows allow. False if the server ended the call, or accepted no more bytes for 30 s.
  bool SendUnfinishedMessage(const std::string& path, std::size_t bytes);
  // Whether the server has ended that call since.
  bool CallHasEnded();
  // After BeginHttp2(): begins up to `calls` calls without regard to the server's limit, and reads
  // nothing. True if the server closed the connection by then, or 30 s later.
  bool IsClosedForCalls(const std::string& path, int calls);

 private:
  // The bytes that the server allows.
  struct Windows {
    std::int64_t connection = 65'535;
    std::int64_t stream = 65'535;
    std::int64_t initial = 65'535;
  };

  // Reads one frame. False if it ends the call, or none arrived.
  bool TakeFrame(Windows& windows);

  int descriptor_;
  bool connected_ = false;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_RAW_CONNECTION_H_
