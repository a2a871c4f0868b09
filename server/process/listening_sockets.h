#ifndef IDEMPOTENCY_SERVER_PROCESS_LISTENING_SOCKETS_H_
#define IDEMPOTENCY_SERVER_PROCESS_LISTENING_SOCKETS_H_

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/files/file_descriptor.h"
#include "server/process/network_address.h"

namespace idempotency::internal {

// An address as the system calls take it.
struct SocketAddress {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
};

// Sockets that listen on one address. Closes them, and removes the file of a unix
// socket. Thread-compatible.
class ListeningSockets {
 public:
  // Binds every address that the host has: a name may have several, and 0.0.0.0 and ::
  // mean every address of the machine, IPv4 and IPv6. All get the same port.
  //
  // FAILED_PRECONDITION with the reason if it can listen on no address. A port or a unix
  // socket that another process listens on is never shared; the leftover file of an
  // ended process's unix socket is replaced. `purpose` follows the address in the error.
  static absl::StatusOr<ListeningSockets> Bind(const NetworkAddress& address,
                                               absl::string_view purpose = "");
  ~ListeningSockets();
  ListeningSockets(ListeningSockets&&) = default;
  ListeningSockets& operator=(ListeningSockets&&) = delete;

  // With the real port in place of 0.
  const NetworkAddress& address() const { return address_; }
  // The address of the first of the sockets.
  SocketAddress Bound() const;
  // Non-blocking, and at least one.
  const std::vector<FileDescriptor>& sockets() const { return sockets_; }

 private:
  explicit ListeningSockets(NetworkAddress address);

  // Each returns the reason of its failure, or "".
  std::string BindUnix();
  std::string BindHost();

  NetworkAddress address_;
  std::vector<FileDescriptor> sockets_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_LISTENING_SOCKETS_H_
