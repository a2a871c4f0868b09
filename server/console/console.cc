#include "server/console/console.h"

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "server/console/page.h"

namespace idempotency::internal {
namespace {

// Nothing from elsewhere, nothing inline, no frame around it, and no text that becomes markup.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

void AddSafeguards(HttpResponse& response) {
  response.headers.insert(response.headers.end(),
                          {
                              {"Content-Security-Policy", kPolicy},
                              {"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Opener-Policy", "same-origin"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Cache-Control", "no-store"},
                          });
}

// The host of a Host header without its port.
absl::string_view HostOf(absl::string_view header) {
  const std::size_t bracket = header.rfind(']');
  const std::size_t colon = header.rfind(':');
  if (colon == absl::string_view::npos) return header;
  if (bracket != absl::string_view::npos && colon < bracket) return header;
  return header.substr(0, colon);
}

// A page of another site reaches a plain port of this machine by a name of its own that resolves
// to it (DNS rebinding). With TLS the browser refuses the certificate.
absl::Status CheckHost(const HttpRequest& request) {
  if (request.host.empty()) return absl::InvalidArgumentError("the header Host is missing");
  if (request.secure || !request.credentials.local) return absl::OkStatus();
  const absl::string_view host = HostOf(request.host);
  if (absl::EqualsIgnoreCase(host, "localhost") || host == "[::1]" ||
      absl::StartsWith(host, "127.")) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      "the console of this machine was requested by another name; open it as "
      "http://localhost:PORT");
}

// A page of another site cannot send these headers without a permission that this server never
// gives (CORS).
absl::Status CheckOrigin(const HttpRequest& request) {
  if (request.console_header != "1") {
    return absl::PermissionDeniedError("the header X-Idempotency-Console must be 1");
  }
  if (!absl::EqualsIgnoreCase(request.content_type, "application/json")) {
    return absl::InvalidArgumentError("the header Content-Type must be application/json");
  }
  const std::string own = absl::StrCat(request.secure ? "https://" : "http://", request.host);
  const bool own_origin = request.origin.empty() || request.origin == own;
  const bool own_site = request.fetch_site.empty() || request.fetch_site == "same-origin";
  if (own_origin && own_site) return absl::OkStatus();
  return absl::PermissionDeniedError("the request came from a page of another origin");
}

HttpResponse FileAnswer(const std::string& target) {
  for (const PageFile& file : PageFiles()) {
    if (target != file.path) continue;
    HttpResponse response;
    response.content_type = std::string(file.content_type);
    response.body = std::string(file.content);
    return response;
  }
  return ErrorAnswer(absl::NotFoundError("the console has no such page; it begins at /"));
}

HttpResponse MethodRefusal(const char* allowed) {
  HttpResponse response = ErrorAnswer(absl::InvalidArgumentError(
      absl::StrCat("the method must be ", allowed, " for this address")));
  response.status = 405;
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace

void Console::Answer(const HttpRequest& request, const HttpReply& reply) const {
  const HttpReply safe = [reply](HttpResponse response) {
    AddSafeguards(response);
    reply(std::move(response));
  };
  if (const absl::Status refused = CheckHost(request); !refused.ok()) {
    return safe(ErrorAnswer(refused));
  }
  absl::string_view method = request.target;
  if (!absl::ConsumePrefix(&method, "/api/")) {
    return safe(request.method == "GET" ? FileAnswer(request.target) : MethodRefusal("GET"));
  }
  if (request.method != "POST") return safe(MethodRefusal("POST"));
  if (const absl::Status refused = CheckOrigin(request); !refused.ok()) {
    return safe(ErrorAnswer(refused));
  }
  api_.Call({method.data(), method.size()}, request.body, request.credentials, safe);
}

}  // namespace idempotency::internal
