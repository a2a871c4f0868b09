#include "ctl/local_address.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace idempotency::internal {
namespace {

// True for four decimal numbers, of which the first is 127.
bool IsLoopbackIpv4(absl::string_view host) {
  const std::vector<absl::string_view> parts = absl::StrSplit(host, '.');
  if (parts.size() != 4 || parts.front() != "127") return false;
  for (const absl::string_view part : parts) {
    unsigned number = 0;
    if (part.size() > 3 || !absl::SimpleAtoi(part, &number) || number > 255) return false;
  }
  return true;
}

}  // namespace

bool IsLocal(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  absl::ConsumePrefix(&address, "dns:///");
  absl::ConsumePrefix(&address, "ipv4:");
  absl::ConsumePrefix(&address, "ipv6:");
  // A list of addresses is not looked into.
  if (absl::StrContains(address, ',')) return false;
  const absl::string_view host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" || IsLoopbackIpv4(host);
}

}  // namespace idempotency::internal
