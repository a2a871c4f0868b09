#include "server/rpc/remote_address.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace idempotency::internal {
namespace {

std::string HostOfIpv6(absl::string_view address) {
  in6_addr parsed{};
  // A link-local address has the interface behind it.
  const std::string text(address.substr(0, address.find('%')));
  if (inet_pton(AF_INET6, text.c_str(), &parsed) != 1) return std::string(address);
  return HostOf(IpOf(parsed));
}

std::string HostOfIpv4(absl::string_view address) {
  in_addr parsed{};
  const std::string text(address);
  if (inet_pton(AF_INET, text.c_str(), &parsed) != 1) return text;
  return HostOf(IpOf(parsed));
}

}  // namespace

std::string HostOfPeer(absl::string_view text) {
  const absl::string_view without_port = text.substr(0, text.rfind(':'));
  absl::string_view address = without_port;
  if (absl::ConsumePrefix(&address, "ipv4:")) return HostOfIpv4(address);
  if (!absl::ConsumePrefix(&address, "ipv6:")) return "";
  if (!absl::ConsumePrefix(&address, "%5B")) absl::ConsumePrefix(&address, "[");
  if (!absl::ConsumeSuffix(&address, "%5D")) absl::ConsumeSuffix(&address, "]");
  return HostOfIpv6(address);
}

}  // namespace idempotency::internal
