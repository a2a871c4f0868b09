#include "server/console/safeguards.h"

#include <arpa/inet.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {
namespace {

// Nothing from elsewhere, nothing inline, no frame around it, and no text that becomes markup.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

// The host of a Host header without its port.
absl::string_view HostOf(absl::string_view header) {
  const std::size_t bracket = header.rfind(']');
  const std::size_t colon = header.rfind(':');
  if (colon == absl::string_view::npos) return header;
  if (bracket != absl::string_view::npos && colon < bracket) return header;
  return header.substr(0, colon);
}

// True for a host that is not looked up in the domain name system.
bool IsAddress(absl::string_view host) {
  in_addr v4{};
  if (inet_pton(AF_INET, std::string(host).c_str(), &v4) == 1) return true;
  if (!absl::StartsWith(host, "[") || !absl::EndsWith(host, "]")) return false;
  in6_addr v6{};
  return inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &v6) == 1;
}

// A page of another site reaches a plain port by a name of its own that resolves to it (DNS
// rebinding), and is of the same origin then. With TLS the browser refuses the certificate; a valid
// token is known to the console's own page alone. An open service verifies no token.
absl::Status CheckHost(const HttpRequest& request, const AccessControl& access) {
  if (request.host.empty()) return absl::InvalidArgumentError("the header Host is missing");
  const bool is_verified = !request.credentials.token.empty() && !access.is_open();
  if (request.secure || is_verified) return absl::OkStatus();
  const absl::string_view host = HostOf(request.host);
  if (absl::EqualsIgnoreCase(host, "localhost") || IsAddress(host)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "without TLS, and without a token that the daemon verifies, the console is opened by an "
      "address: "
      "http://localhost:PORT");
}

}  // namespace

void AddSafeguards(HttpResponse& response) {
  for (const auto& [name, value] :
       {std::pair("Content-Security-Policy", kPolicy),
        std::pair("X-Content-Type-Options", "nosniff"), std::pair("X-Frame-Options", "DENY"),
        std::pair("Referrer-Policy", "no-referrer"),
        std::pair("Cross-Origin-Opener-Policy", "same-origin"),
        std::pair("Cross-Origin-Resource-Policy", "same-origin"),
        std::pair("Cache-Control", "no-store")}) {
    response.headers.emplace_back(name, value);
  }
}

absl::Status CheckSender(const HttpRequest& request, const AccessControl& access) {
  if (absl::Status refused = CheckHost(request, access); !refused.ok()) return refused;
  // A page of another origin cannot send these headers without a permission that this server never
  // gives (CORS).
  if (request.console_header != "1") {
    return absl::PermissionDeniedError("the header X-Idempotency-Console must be 1");
  }
  if (!absl::EqualsIgnoreCase(request.content_type, "application/json")) {
    return absl::InvalidArgumentError("the header Content-Type must be application/json");
  }
  const std::string own = absl::StrCat(request.secure ? "https://" : "http://", request.host);
  const bool own_origin = request.origin.empty() || absl::EqualsIgnoreCase(request.origin, own);
  const bool own_site = request.fetch_site.empty() || request.fetch_site == "same-origin";
  if (own_origin && own_site) return absl::OkStatus();
  return absl::PermissionDeniedError("the request came from a page of another origin");
}

}  // namespace idempotency::internal
