#ifndef IDEMPOTENCY_SERVER_RPC_PEER_HOST_H_
#define IDEMPOTENCY_SERVER_RPC_PEER_HOST_H_

#include <netinet/in.h>

#include <cstddef>
#include <string>

namespace idempotency::internal {

// The host of an address, by which connections and calls are counted: an IPv4 address, also as one
// that is mapped to IPv6, or 64 bits of an IPv6 address, the prefix that one host gets. Its bytes.

inline std::string HostOf(const in_addr& address) {
  return {reinterpret_cast<const char*>(&address), sizeof(address)};
}

inline std::string HostOf(const in6_addr& address) {
  constexpr std::size_t kHostBytes = 8;
  constexpr std::size_t kMappedAt = 12;
  const auto* const bytes = reinterpret_cast<const char*>(&address);
  if (IN6_IS_ADDR_V4MAPPED(&address)) return {bytes + kMappedAt, sizeof(in_addr)};
  return {bytes, kHostBytes};
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_PEER_HOST_H_
