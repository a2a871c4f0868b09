#include "ctl/envoy/deployment.h"

#include <algorithm>

namespace idempotency::internal {

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
  const bool has_http =
      std::any_of(deployment.guarded.begin(), deployment.guarded.end(),
                  [](const EnvoyRoute& route) { return !route.http_methods.empty(); });
  if (has_http) {
    // A service may take the method from them, and the route from the real one.
    headers.insert(headers.end(), {"x-http-method", "x-http-method-override", "x-method-override"});
  }
  headers.insert(headers.end(), deployment.stripped_headers.begin(),
                 deployment.stripped_headers.end());
  std::sort(headers.begin(), headers.end());
  headers.erase(std::unique(headers.begin(), headers.end()), headers.end());
  return headers;
}

}  // namespace idempotency::internal
