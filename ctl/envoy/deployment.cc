#include "ctl/envoy/deployment.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"

namespace idempotency::internal {
namespace {

// A name with more hyphens has one other spelling, without any: Envoy Gateway accepts 64 names.
constexpr int kMaxMixedHyphens = 3;

// CGI, and what came after it (WSGI, Rack, PHP), reads `_` and `-` as the same character.
void AddUnderscores(const std::string& header, std::vector<std::string>& headers) {
  if (std::count(header.begin(), header.end(), '-') > kMaxMixedHyphens) {
    headers.push_back(absl::StrReplaceAll(header, {{"-", "_"}}));
    return;
  }
  std::vector<std::string> spellings = {header};
  for (std::size_t at = header.find('-'); at != std::string::npos; at = header.find('-', at + 1)) {
    const std::size_t before = spellings.size();
    for (std::size_t i = 0; i < before; ++i) {
      std::string spelling = spellings[i];
      spelling[at] = '_';
      spellings.push_back(std::move(spelling));
    }
  }
  headers.insert(headers.end(), spellings.begin() + 1, spellings.end());
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
