#include "absl/strings/str_cat.h"

#include "ctl/envoy/envoy_blocks.h"
#include "ctl/envoy/formats.h"
#include "ctl/envoy/yaml_text.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kOwnCluster = "idempotency";

// Istio's own cluster of the processor has the mesh's mutual TLS; without the mesh the command has
// a certificate authority.
std::string ClusterOfProcessor(const Deployment& deployment) {
  if (!deployment.processor_tls.ca.empty()) return std::string(kOwnCluster);
  return absl::StrCat("outbound|", deployment.processor.port, "||", deployment.processor.host);
}

std::string Patch(absl::string_view apply_to, absl::string_view match, absl::string_view operation,
                  absl::string_view value) {
  return ListItem(absl::StrCat("applyTo: ", apply_to, "\nmatch:\n  context: SIDECAR_INBOUND\n",
                               Indented(match, 2), "patch:\n  operation: ", operation,
                               "\n  value:\n", Indented(value, 4)));
}

constexpr absl::string_view kManager =
    "listener:\n  filterChain:\n    filter:\n"
    "      name: envoy.filters.network.http_connection_manager\n";
constexpr absl::string_view kRouter = "      subFilter: {name: envoy.filters.http.router}\n";

constexpr absl::string_view kOnePath =
    R"(name: envoy.filters.network.http_connection_manager
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
  # One spelling of a path: another one must not bypass the routes below. Istio's default merges and
  # refuses no slashes.
  normalize_path: true
  merge_slashes: true
  path_with_escaped_slashes_action: REJECT_REQUEST
)";

// The last one is inserted first, so that the proxy has the order of Routes().
std::string RoutePatches(const Deployment& deployment) {
  const std::vector<std::string> routes =
      Routes(deployment, absl::StrCat("inbound|", deployment.upstream.port, "||"));
  const std::string match =
      absl::StrCat("routeConfiguration:\n  vhost:\n    name: ",
                   YamlString(absl::StrCat("inbound|http|", deployment.upstream.port)), "\n");
  std::string patches;
  for (auto route = routes.rbegin(); route != routes.rend(); ++route) {
    absl::StrAppend(&patches, Patch("HTTP_ROUTE", match, "INSERT_FIRST", *route));
  }
  return patches;
}

std::string ClusterPatch(const Deployment& deployment) {
  if (deployment.processor_tls.ca.empty()) return "";
  return ListItem(
      absl::StrCat("applyTo: CLUSTER\nmatch: {context: SIDECAR_INBOUND}\n"
                   "patch:\n  operation: ADD\n  value:\n",
                   Indented(ProcessorCluster(deployment, kOwnCluster), 4)));
}

}  // namespace

std::string IstioEnvoyFilter(const Deployment& deployment) {
  std::string labels;
  for (const auto& [name, value] : deployment.workload_labels) {
    absl::StrAppend(&labels, "      ", YamlString(name), ": ", YamlString(value), "\n");
  }
  const std::string patches = absl::StrCat(
      Patch("HTTP_FILTER", kManager, "INSERT_FIRST", StripFilter(deployment)),
      Patch("HTTP_FILTER", absl::StrCat(kManager, kRouter), "INSERT_BEFORE",
            ProcessorFilter(deployment, ClusterOfProcessor(deployment))),
      HasHttpRoutes(deployment) ? Patch("NETWORK_FILTER", kManager, "MERGE", kOnePath) : "",
      ClusterPatch(deployment), RoutePatches(deployment));
  return absl::StrCat(
      "# Written by `idempotencyctl envoy-config --format=istio`.\n"
      "# In the sidecar of the service, so that callers inside the mesh are guarded too. Callers'\n"
      "# own sidecars repeat requests by default (VirtualService: retries). Those repeats carry "
      "the\n"
      "# same key and pass this filter: they get the first reply.\n"
      "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata:\n"
      "  name: idempotency\n  namespace: ",
      YamlString(deployment.kubernetes_namespace), "\nspec:\n  workloadSelector:\n    labels:\n",
      labels, "  configPatches:\n", Indented(patches, 2));
}

}  // namespace idempotency::internal
