#ifndef IDEMPOTENCY_TESTS_CHAOS_PROXY_SOCKET_ADDRESS_H_
#define IDEMPOTENCY_TESTS_CHAOS_PROXY_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <string>

#include "absl/status/statusor.h"

#include "tests/chaos/proxy/file_descriptor.h"

namespace idempotency::internal::chaos {

// "127.0.0.1:5432" (an IPv4 address, no names) or "unix:/run/x.sock". A value.
class SocketAddress {
 public:
  static absl::StatusOr<SocketAddress> Parse(const std::string& text);

  bool is_unix() const { return storage_.ss_family == AF_UNIX; }
  // The text for Parse.
  std::string ToString() const;

  // A listening socket that does not block. Replaces the remains of another at the same path. Port
  // 0 takes any: see BoundTo.
  absl::StatusOr<FileDescriptor> Listen() const;
  // A socket that is connecting or connected, and does not block.
  absl::StatusOr<FileDescriptor> StartConnect() const;
  // The address that `socket` was bound to.
  static absl::StatusOr<SocketAddress> BoundTo(int socket);

 private:
  absl::StatusOr<FileDescriptor> NewSocket() const;
  absl::StatusOr<FileDescriptor> Bind() const;
  bool has_port_0() const;

  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

}  // namespace idempotency::internal::chaos

#endif  // IDEMPOTENCY_TESTS_CHAOS_PROXY_SOCKET_ADDRESS_H_
