#include "server/process/network_address.h"

#include <sys/un.h>

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";

absl::Status Invalid(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' ", what,
                   "; write HOST:PORT, [IPV6]:PORT or unix:PATH, for example 127.0.0.1:7411"));
}

// Splits "host:port" or "[v6]:port". False if it is neither.
bool Split(absl::string_view text, absl::string_view& host, absl::string_view& port) {
  if (absl::StartsWith(text, "[")) {
    const std::size_t close = text.find("]:");
    if (close == absl::string_view::npos) return false;
    host = text.substr(1, close - 1);
    port = text.substr(close + 2);
    return absl::StrContains(host, ':');
  }
  const std::size_t colon = text.find(':');
  if (colon == absl::string_view::npos) return false;
  host = text.substr(0, colon);
  port = text.substr(colon + 1);
  // A bare IPv6 address leaves colons in the port.
  return !absl::StrContains(port, ':');
}

bool ParsePort(absl::string_view text, std::uint16_t& port) {
  std::uint32_t value = 0;
  if (text.empty() || !absl::ascii_isdigit(text.front()) || !absl::SimpleAtoi(text, &value) ||
      value > std::numeric_limits<std::uint16_t>::max()) {
    return false;
  }
  port = static_cast<std::uint16_t>(value);
  return true;
}

bool IsHost(absl::string_view host) {
  if (host.empty()) return false;
  for (const char c : host) {
    if (!absl::ascii_isalnum(c) && !absl::StrContains("-._:%", c)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<NetworkAddress> NetworkAddress::Parse(absl::string_view text) {
  NetworkAddress address;
  if (absl::StartsWith(text, kUnixPrefix)) {
    address.unix_path = std::string(absl::StripPrefix(text, kUnixPrefix));
    if (address.unix_path.empty()) return Invalid(text, "has no path");
    if (address.unix_path.size() >= sizeof(sockaddr_un::sun_path)) {
      return Invalid(text, "has a path over 107 bytes, the system's limit for a socket");
    }
    return address;
  }
  absl::string_view host, port;
  if (!Split(text, host, port)) return Invalid(text, "is not an address");
  if (!IsHost(host)) return Invalid(text, "has no usable host");
  if (!ParsePort(port, address.port)) return Invalid(text, "has no port from 0 to 65535");
  address.host = std::string(host);
  return address;
}

std::string NetworkAddress::ToString() const {
  if (!unix_path.empty()) return absl::StrCat(kUnixPrefix, unix_path);
  if (absl::StrContains(host, ':')) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

bool NetworkAddress::IsLocal() const {
  return !unix_path.empty() || host == "localhost" || host == "::1" ||
         absl::StartsWith(host, "127.");
}

}  // namespace idempotency::internal
