#ifndef IDEMPOTENCY_SERVER_PROCESS_NETWORK_ADDRESS_H_
#define IDEMPOTENCY_SERVER_PROCESS_NETWORK_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {

// The listen address of a server: HOST:PORT, [IPV6]:PORT or unix:PATH. A value
// type.
struct NetworkAddress {
  // Without brackets; empty for a unix socket.
  std::string host;
  // 0: the system chooses a free one.
  std::uint16_t port = 0;
  // Empty unless it is a unix socket.
  std::string unix_path;

  // INVALID_ARGUMENT with what is wrong and an example. Resolves no names.
  static absl::StatusOr<NetworkAddress> Parse(absl::string_view text);

  // In the form of the command line, which gRPC also accepts.
  std::string ToString() const;
  // Only this machine can reach it. Names other than "localhost" count as
  // reachable from outside.
  bool IsLocal() const;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_NETWORK_ADDRESS_H_
