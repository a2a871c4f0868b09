#include "ctl/envoy/envoy_blocks.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "ctl/envoy/processor_messages.h"
#include "ctl/envoy/yaml_text.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kStripHead =
    R"(# The first filter. No caller may send these headers: each of them changes which requests run
# again, or looks like an answer of the guard. Filters that set the scope's header come after it.
name: envoy.filters.http.header_mutation
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
  mutations:
    request_mutations:
)";

constexpr absl::string_view kProcessorHead =
    R"(# Calls idempotencyd for each guarded request, and sends it each reply to record. The last filter
# before the router: what the filters before it refuse is not recorded as an outcome.
name: )";

constexpr absl::string_view kProcessorTail =
    R"(typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
  grpc_service:
    envoy_grpc: {cluster_name: $cluster}
    # The stream lasts as long as the request, which has a deadline of its own.
    timeout: 0s
  # Without the processor nothing runs: a request that passed could run for a second time.
  failure_mode_allow: false
  # A lost processor is 503, for gRPC UNAVAILABLE. The default is 500, for gRPC UNKNOWN.
  status_on_error: {code: 503}
  # Only guarded routes have another mode: every other request costs nothing. Envoy reads it of the
  # route that a request has here, whose path a filter before this one may have changed. `disabled`
  # would be decided before the first filter.
  processing_mode:
    request_header_mode: SKIP
    request_body_mode: NONE
    request_trailer_mode: SKIP
    response_header_mode: SKIP
    response_body_mode: NONE
    response_trailer_mode: SKIP
)";

constexpr absl::string_view kRouteReasons =
    R"(# Every guarded route:
# - a path in another case or with a slash at its end is guarded too, and so is a method of HTTP in
#   another case: some servers accept them. The processor refuses what it has no entry for.
# - timeout and max_stream_duration are the end of each exchange, also of one whose processor is
#   stuck: under full duplex the filter's message_timeout has no effect. The outcome is then unknown.
#   A caller's grpc-timeout counts if it is shorter.
# - idle_timeout is no shorter: a handler that works sends no bytes, and Envoy would end its request
#   after five minutes.
# - no retries, no hedging, no mirroring: the router runs below the filter, and would run the method
#   again behind the record. Retries belong to the caller, with the same key. Mirroring cannot be
#   switched off by a route: configure none above it.
# - the filter sends all of it: the only mode in which the answer to the headers can wait for the
#   whole body, so that a request is compared with the first one of its key before it is forwarded.
#   The trailers are sent too: they are the end of a gRPC reply, and it is held until the record is
#   durable.
)";

constexpr absl::string_view kGuardedRoute = R"(route:
  cluster: $cluster
  timeout: $deadline
  idle_timeout: $deadline
  max_stream_duration: {max_stream_duration: $deadline, grpc_timeout_header_max: $deadline}
  retry_policy: {num_retries: 0}
  hedge_policy: {initial_requests: 1}
typed_per_filter_config:
  $filter:
    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute
    overrides:
      processing_mode:
        request_header_mode: SEND
        request_body_mode: FULL_DUPLEX_STREAMED
        request_trailer_mode: SEND
        response_header_mode: SEND
        response_body_mode: FULL_DUPLEX_STREAMED
        response_trailer_mode: SEND
)";

std::string Match(const EnvoyRoute& route) {
  // Cheaper than the expression of its spellings.
  std::string match =
      route.is_regex ? absl::StrCat("match:\n  safe_regex: {regex: ", YamlString(route.path), "}\n")
                     : absl::StrCat("match:\n  path_separated_prefix: ", YamlString(route.path),
                                    "\n  case_sensitive: false\n");
  if (route.http_methods.empty()) return match;
  absl::StrAppend(&match,
                  "  headers:\n  - name: \":method\"\n    string_match: {safe_regex: {regex: ",
                  YamlString(absl::StrCat("(?i)", absl::StrJoin(route.http_methods, "|"))), "}}\n");
  return match;
}

std::string GuardedRouteBlock(const Deployment& deployment, const EnvoyRoute& route,
                              absl::string_view cluster) {
  return absl::StrCat(
      "name: ", YamlString(absl::StrCat("idempotency ", route.text)), "\n", Match(route),
      absl::StrReplaceAll(kGuardedRoute, {{"$cluster", YamlString(cluster)},
                                          {"$deadline", DurationText(deployment.deadline)},
                                          {"$filter", kProcessorFilterName}}));
}

std::string StreamingRouteBlock(const std::string& path, absl::string_view cluster) {
  return absl::StrCat(
      "# A streaming method: the filter would hold its headers until the last request has "
      "arrived.\n"
      "name: ",
      YamlString(absl::StrCat("streaming ", absl::StripPrefix(path, "/"))),
      "\nmatch:\n  path: ", YamlString(path), "\nroute:\n  cluster: ", YamlString(cluster),
      "\n  timeout: 0s\n");
}

}  // namespace

std::string DurationText(absl::Duration duration) {
  const std::int64_t milliseconds = absl::ToInt64Milliseconds(duration);
  if (milliseconds % 1000 == 0) return absl::StrCat(milliseconds / 1000, "s");
  return absl::StrFormat("%d.%03ds", milliseconds / 1000, milliseconds % 1000);
}

std::string SocketAddress(const HostPort& address) {
  return absl::StrCat("address:\n  socket_address: {address: ", YamlString(address.host),
                      ", port_value: ", address.port, "}\n");
}

std::string StripFilter(const Deployment& deployment) {
  std::string filter(kStripHead);
  for (const std::string& header : StrippedHeaders(deployment)) {
    absl::StrAppend(&filter, "    - remove: ", YamlString(header), "\n");
  }
  return filter;
}

std::string ProcessorFilter(const Deployment& deployment, absl::string_view cluster) {
  std::string filter = absl::StrCat(
      kProcessorHead, kProcessorFilterName, "\n",
      absl::StrReplaceAll(kProcessorTail, {{"$cluster", YamlString(cluster)}}),
      "  # Who calls. Envoy takes it from the verified certificate: no caller can forge it.\n"
      "  request_attributes:\n  - ",
      absl::StrJoin(kRequestAttributes, "\n  - "),
      "\n  # Who answered. Only a reply that came via_upstream is an outcome; Envoy's own errors\n"
      "  # look like replies.\n  response_attributes:\n  - ",
      absl::StrJoin(kResponseAttributes, "\n  - "),
      "\n  # The claims of a verified token, for a scope that is a claim.\n"
      "  metadata_options:\n    forwarding_namespaces: {untyped: "
      "[envoy.filters.http.jwt_authn]}\n");
  if (deployment.has_content_length_option) {
    absl::StrAppend(&filter,
                    "  # A reply keeps its content-length.\n  allow_content_length_header: true\n");
  }
  return filter;
}

std::vector<std::string> Routes(const Deployment& deployment, absl::string_view cluster) {
  std::vector<std::string> routes;
  for (const std::string& path : deployment.streaming_paths) {
    routes.push_back(StreamingRouteBlock(path, cluster));
  }
  for (const EnvoyRoute& route : deployment.guarded) {
    const bool is_first = routes.size() == deployment.streaming_paths.size();
    routes.push_back(
        absl::StrCat(is_first ? kRouteReasons : "", GuardedRouteBlock(deployment, route, cluster)));
  }
  return routes;
}

std::string UpstreamTls(const EnvoyTlsFiles& tls, bool is_http2_only) {
  if (tls.ca.empty()) return "";
  std::string socket = absl::StrCat(
      "transport_socket:\n  name: envoy.transport_sockets.tls\n  typed_config:\n"
      "    \"@type\": "
      "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext\n"
      "    sni: ",
      YamlString(tls.name), "\n    common_tls_context:\n",
      is_http2_only ? "      alpn_protocols: [h2]\n" : "",
      "      validation_context:\n        trusted_ca: {filename: ", YamlString(tls.ca),
      "}\n        # Without it every certificate of the authority would do.\n"
      "        match_typed_subject_alt_names:\n        - san_type: DNS\n          matcher: "
      "{exact: ",
      YamlString(tls.name), "}\n");
  if (!tls.cert.empty()) {
    absl::StrAppend(&socket, "      tls_certificates:\n      - certificate_chain: {filename: ",
                    YamlString(tls.cert),
                    "}\n        private_key: {filename: ", YamlString(tls.key), "}\n");
  }
  return socket;
}

std::string ProcessorCluster(const Deployment& deployment, absl::string_view name) {
  return absl::StrCat(
      "# idempotencyd's port for external processing. Only proxies may reach it.\n"
      "name: ",
      YamlString(name),
      "\ntype: STRICT_DNS\ndns_lookup_family: V4_PREFERRED\nconnect_timeout: 2s\n"
      "# A stream for each guarded request in progress. Above the limit requests fail, closed.\n"
      "circuit_breakers:\n  thresholds: [{max_requests: ",
      kMaxGuardedRequests, ", max_pending_requests: ", kMaxGuardedRequests,
      "}]\n"
      "typed_extension_protocol_options:\n"
      "  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:\n"
      "    \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions\n"
      "    explicit_http_config:\n"
      "      http2_protocol_options:\n"
      "        # A frozen processor is found within these two, and its requests fail, closed.\n"
      "        connection_keepalive: {interval: 5s, timeout: 5s}\n"
      "load_assignment:\n  cluster_name: ",
      YamlString(name), "\n  endpoints:\n  - lb_endpoints:\n    - endpoint:\n",
      Indented(SocketAddress(deployment.processor), 8),
      UpstreamTls(deployment.processor_tls, true));
}

}  // namespace idempotency::internal
