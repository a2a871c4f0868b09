#ifndef IDEMPOTENCY_SERVER_RPC_REMOTE_ADDRESS_H_
#define IDEMPOTENCY_SERVER_RPC_REMOTE_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace idempotency::internal {

// The bytes of an IP address: four also where an IPv4 address is mapped to IPv6.
inline std::string IpOf(const in_addr& address) {
  return {reinterpret_cast<const char*>(&address), sizeof(address)};
}
inline std::string IpOf(const in6_addr& address) {
  std::string bytes(reinterpret_cast<const char*>(&address), sizeof(address));
  if (IN6_IS_ADDR_V4MAPPED(&address)) bytes.erase(0, bytes.size() - sizeof(in_addr));
  return bytes;
}

// The host that connections and calls are counted by: an IPv4 address, or 64 bits of an IPv6
// address, the prefix that one host gets.
inline std::string HostOf(std::string ip) {
  constexpr std::size_t kPrefix = 8;
  if (ip.size() > kPrefix) ip.resize(kPrefix);
  return ip;
}

// The host in gRPC's text of a remote address, such as "ipv4:192.0.2.1:4000" or
// "ipv6:%5B2001:db8::1%5D:4000"; empty for a Unix socket, which is not counted by host.
std::string HostOfPeer(absl::string_view text);

// The remote end of a TCP connection: its IP address and its port.
using RemoteAddress = std::pair<std::string, int>;

// nullopt for a Unix socket, whose remote ends have no names.
inline std::optional<RemoteAddress> RemoteAddressOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return RemoteAddress(IpOf(ipv4.sin_addr), ntohs(ipv4.sin_port));
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
  return RemoteAddress(IpOf(ipv6.sin6_addr), ntohs(ipv6.sin6_port));
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_REMOTE_ADDRESS_H_
