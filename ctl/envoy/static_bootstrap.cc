#include "absl/strings/str_cat.h"

#include "ctl/envoy/envoy_blocks.h"
#include "ctl/envoy/formats.h"
#include "ctl/envoy/processor_messages.h"
#include "ctl/envoy/yaml_text.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kProcessor = "idempotency";
constexpr absl::string_view kUpstream = "upstream";

constexpr absl::string_view kManagerHead = R"(name: envoy.filters.network.http_connection_manager
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
  stat_prefix: guarded
  # The caller's address is the connection's; x-forwarded-for of callers is not believed.
  use_remote_address: true
  # No caller's statement about its certificate passes.
  forward_client_cert_details: SANITIZE
  # One spelling of a path: another one must not bypass the routes below.
  normalize_path: true
  merge_slashes: true
  path_with_escaped_slashes_action: REJECT_REQUEST
  # The end of a connection without a request in progress, also of one whose caller does not read
  # its reply, which Envoy holds meanwhile.
  common_http_protocol_options: {idle_timeout: 60s}
  http2_protocol_options:
    max_concurrent_streams: 100
    initial_stream_window_size: 65536
    initial_connection_window_size: 1048576
  http_filters:
)";

constexpr absl::string_view kRouter = R"(- name: envoy.filters.http.router
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
)";

std::string DownstreamTls(const EnvoyTlsFiles& tls) {
  if (tls.cert.empty()) return "";
  return absl::StrCat(
      "transport_socket:\n  name: envoy.transport_sockets.tls\n  typed_config:\n"
      "    \"@type\": "
      "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext\n",
      tls.ca.empty()
          ? ""
          : "    # The caller's certificate is its identity, which is the scope of its records.\n"
            "    require_client_certificate: true\n",
      "    common_tls_context:\n      alpn_protocols: [h2, http/1.1]\n",
      "      tls_certificates:\n      - certificate_chain: {filename: ", YamlString(tls.cert),
      "}\n        private_key: {filename: ", YamlString(tls.key), "}\n",
      tls.ca.empty() ? ""
                     : absl::StrCat("      validation_context:\n        trusted_ca: {filename: ",
                                    YamlString(tls.ca), "}\n"));
}

std::string RouteConfig(const Deployment& deployment) {
  std::string routes;
  for (const std::string& route : Routes(deployment, kUpstream)) {
    absl::StrAppend(&routes, ListItem(route));
  }
  absl::StrAppend(
      &routes, ListItem(absl::StrCat("# Not guarded.\nname: rest\nmatch: {prefix: \"/\"}\nroute:\n"
                                     "  cluster: ",
                                     kUpstream, "\n  timeout: 0s\n")));
  return absl::StrCat("route_config:\n  virtual_hosts:\n  - name: all\n    domains: [\"*\"]\n",
                      "    routes:\n", Indented(routes, 4));
}

std::string Listener(const Deployment& deployment) {
  const std::string filters =
      absl::StrCat(ListItem(StripFilter(deployment)),
                   "# A filter that authenticates callers (for example "
                   "envoy.filters.http.jwt_authn) goes here.\n",
                   ListItem(ProcessorFilter(deployment, kProcessor)), kRouter);
  const std::string manager =
      absl::StrCat(kManagerHead, Indented(filters, 2), Indented(RouteConfig(deployment), 2));
  const std::string chain =
      absl::StrCat(DownstreamTls(deployment.listener_tls), "filters:\n", ListItem(manager));
  return absl::StrCat("name: guarded\n", SocketAddress(deployment.listen), "filter_chains:\n",
                      ListItem(chain));
}

absl::string_view ProtocolOptions(UpstreamProtocol protocol) {
  switch (protocol) {
    case UpstreamProtocol::kHttp1:
      return "# Most services end an idle connection after five seconds or more. A request that "
             "meets "
             "the\n# end has an unknown outcome, so Envoy ends it sooner.\n"
             "common_http_protocol_options: {idle_timeout: 4s}\n"
             "explicit_http_config: {http_protocol_options: {}}\n";
    case UpstreamProtocol::kHttp2:
      return "explicit_http_config: {http2_protocol_options: {}}\n";
    case UpstreamProtocol::kOfCaller:
      break;
  }
  return "# Each caller's, which has to be one that the service speaks: HTTP/2 for gRPC.\n"
         "use_downstream_protocol_config: {http_protocol_options: {}, http2_protocol_options: "
         "{}}\n";
}

std::string UpstreamCluster(const Deployment& deployment) {
  return absl::StrCat(
      "# The service.\nname: ", kUpstream,
      "\ntype: STRICT_DNS\ndns_lookup_family: V4_PREFERRED\nconnect_timeout: 2s\n"
      "# Not lower than the processor's: a request above the limit fails behind its record, with\n"
      "# an unknown outcome.\n"
      "circuit_breakers:\n  thresholds:\n  - {max_connections: ",
      kMaxGuardedRequests, ", max_requests: ", kMaxGuardedRequests,
      ",\n     max_pending_requests: ", kMaxGuardedRequests,
      "}\n"
      "typed_extension_protocol_options:\n"
      "  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:\n"
      "    \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions\n",
      Indented(ProtocolOptions(deployment.upstream_protocol), 4),
      "load_assignment:\n  cluster_name: ", kUpstream,
      "\n  endpoints:\n  - lb_endpoints:\n    - endpoint:\n",
      Indented(SocketAddress(deployment.upstream), 8), UpstreamTls(deployment.upstream_tls, false));
}

}  // namespace

std::string StaticBootstrap(const Deployment& deployment) {
  return absl::StrCat(
      "# Written by `idempotencyctl envoy-config`: write it again in place of editing it.\n",
      "admin:\n", Indented(SocketAddress(deployment.admin), 2), "static_resources:\n  listeners:\n",
      Indented(ListItem(Listener(deployment)), 2), "  clusters:\n",
      Indented(ListItem(UpstreamCluster(deployment)), 2),
      Indented(ListItem(ProcessorCluster(deployment, kProcessor)), 2));
}

}  // namespace idempotency::internal
