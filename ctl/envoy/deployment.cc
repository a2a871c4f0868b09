#include "ctl/envoy/deployment.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"

namespace idempotency::internal {
namespace {

// More hyphens have only the spelling without any.
constexpr int kMaxMixedHyphens = 3;

// CGI, and what came after it (WSGI, Rack, PHP), reads `_` and `-` as the same character.
void AddUnderscores(const std::string& header, std::vector<std::string>& headers) {
  std::vector<std::size_t> hyphens;
  for (std::size_t at = header.find('-'); at != std::string::npos; at = header.find('-', at + 1)) {
    hyphens.push_back(at);
  }
  const unsigned all = (1U << std::min<std::size_t>(hyphens.size(), 31)) - 1;
  const bool mixed = hyphens.size() <= kMaxMixedHyphens;
  for (unsigned chosen = mixed ? 1 : all; chosen <= all && !hyphens.empty(); ++chosen) {
    std::string spelling = header;
    for (std::size_t i = 0; i < hyphens.size(); ++i) {
      if (!mixed || ((chosen >> i) & 1U) != 0) spelling[hyphens[i]] = '_';
    }
    headers.push_back(std::move(spelling));
  }
}

}  // namespace

bool HasHttpRoutes(const Deployment& deployment) {
  return std::any_of(deployment.guarded.begin(), deployment.guarded.end(),
                     [](const EnvoyRoute& route) { return !route.http_methods.empty(); });
}

std::vector<std::string> StrippedHeaders(const Deployment& deployment) {
  std::vector<std::string> headers = {
      // Trailers of a guarded reply (docs/errors.md).
      "idempotency-content",
      "idempotency-expires",
      "idempotency-record",
      "idempotency-replayed",
      "idempotency-traceparent",
      // Each of them makes Envoy's router repeat a request below the filter, or end it early.
      "x-envoy-expected-rq-timeout-ms",
      "x-envoy-hedge-on-per-try-timeout",
      "x-envoy-max-retries",
      "x-envoy-retriable-header-names",
      "x-envoy-retriable-status-codes",
      "x-envoy-retry-grpc-on",
      "x-envoy-retry-on",
      "x-envoy-upstream-alt-stat-name",
      "x-envoy-upstream-rq-per-try-timeout-ms",
      "x-envoy-upstream-rq-timeout-alt-response",
      "x-envoy-upstream-rq-timeout-ms",
  };
  const bool has_http = HasHttpRoutes(deployment);
  if (has_http) {
    // A service may take the method from them, and the route from the real one.
    headers.insert(headers.end(), {"x-http-method", "x-http-method-override", "x-method-override"});
  }
  headers.insert(headers.end(), deployment.stripped_headers.begin(),
                 deployment.stripped_headers.end());
  if (has_http) {
    // Envoy alone reads its own, by their exact names.
    for (const std::string& header : std::vector<std::string>(headers)) {
      if (!absl::StartsWith(header, "x-envoy-")) AddUnderscores(header, headers);
    }
  }
  std::sort(headers.begin(), headers.end());
  headers.erase(std::unique(headers.begin(), headers.end()), headers.end());
  return headers;
}

}  // namespace idempotency::internal
