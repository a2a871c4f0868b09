#include "interceptors/ext_proc/service/proxy_outcome.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace idempotency::internal {
namespace {

// Envoy's response code details, of its router:
// https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/response_code_details
bool IsNotSent(const std::string& details) {
  // Nothing is sent before a connection exists.
  return details == "no_healthy_upstream" || details == "cluster_not_found" ||
         details == "route_not_found" ||
         absl::StartsWith(details,
                          "upstream_reset_before_response_started{remote_connection_failure") ||
         absl::StartsWith(details,
                          "upstream_reset_before_response_started{local_connection_failure");
}

// An earlier attempt of the router may have reached an upstream. Without the attribute it is not
// known.
bool AtMostOneAttempt(const ProxyContext& context) {
  const std::optional<std::string> attempts = context.Attribute("upstream.request_attempt_count");
  double count = 0;
  return attempts.has_value() && absl::SimpleAtod(*attempts, &count) && count <= 1;
}

}  // namespace

ResponseOrigin OriginOf(const ProxyContext& context) {
  const std::optional<std::string> details = context.Attribute("response.code_details");
  if (!details.has_value()) return ResponseOrigin::kUnstated;
  if (*details == "via_upstream") return ResponseOrigin::kUpstream;
  return IsNotSent(*details) && AtMostOneAttempt(context) ? ResponseOrigin::kNotSent
                                                          : ResponseOrigin::kProxy;
}

}  // namespace idempotency::internal
