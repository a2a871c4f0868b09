#ifndef IDEMPOTENCY_SERVER_PROCESS_REMOTE_ADDRESS_H_
#define IDEMPOTENCY_SERVER_PROCESS_REMOTE_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>

namespace idempotency::internal {

// The remote end of a TCP connection: the bytes of its IP address, four also where an IPv4 address
// is mapped to IPv6, and its port.
using RemoteAddress = std::pair<std::string, int>;

// nullopt for a Unix socket, whose remote ends have no names.
inline std::optional<RemoteAddress> RemoteAddressOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    const auto* const bytes = reinterpret_cast<const char*>(&ipv4.sin_addr);
    return RemoteAddress({bytes, sizeof(ipv4.sin_addr)}, ntohs(ipv4.sin_port));
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
  std::string bytes(reinterpret_cast<const char*>(&ipv6.sin6_addr), sizeof(ipv6.sin6_addr));
  if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) bytes.erase(0, bytes.size() - sizeof(in_addr));
  return RemoteAddress(std::move(bytes), ntohs(ipv6.sin6_port));
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_REMOTE_ADDRESS_H_
