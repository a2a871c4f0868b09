#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "ctl/envoy/envoy_blocks.h"
#include "ctl/envoy/formats.h"
#include "ctl/envoy/processor_messages.h"
#include "ctl/envoy/yaml_text.h"

namespace idempotency::internal {
namespace {

// The Gateway API's limits, of all its versions: matches of a rule, rules of a route.
constexpr std::size_t kMatchesOfRule = 8;
constexpr std::size_t kRulesOfRoute = 16;

std::string Head(absl::string_view api, absl::string_view kind, absl::string_view name,
                 absl::string_view kubernetes_namespace) {
  return absl::StrCat("---\napiVersion: ", api, "\nkind: ", kind, "\nmetadata:\n  name: ", name,
                      "\n  namespace: ", YamlString(kubernetes_namespace), "\nspec:\n");
}

std::string Head(absl::string_view api, absl::string_view kind, absl::string_view name,
                 const Deployment& deployment) {
  return Head(api, kind, name, deployment.kubernetes_namespace);
}

constexpr absl::string_view kGatewayApi = "gateway.networking.k8s.io/v1";
constexpr absl::string_view kEnvoyGatewayApi = "gateway.envoyproxy.io/v1alpha1";

// A duration of the Gateway API, which has no fractions: "1s500ms".
std::string GatewayDuration(absl::Duration duration) {
  const std::int64_t milliseconds = absl::ToInt64Milliseconds(duration);
  const std::string seconds = milliseconds < 1000 ? "" : absl::StrCat(milliseconds / 1000, "s");
  return milliseconds % 1000 == 0 ? seconds : absl::StrCat(seconds, milliseconds % 1000, "ms");
}

struct ServiceName {
  std::string name;
  // "": that of the objects.
  std::string kubernetes_namespace;
};

// `host` is a service's name, with its namespace or without.
ServiceName NameOf(const std::string& host) {
  const std::size_t dot = host.find('.');
  if (dot == std::string::npos) return {host, ""};
  const std::string rest = host.substr(dot + 1);
  return {host.substr(0, dot), rest.substr(0, rest.find('.'))};
}

std::string BackendRef(const HostPort& service) {
  const ServiceName name = NameOf(service.host);
  std::string reference = absl::StrCat("backendRefs:\n- name: ", YamlString(name.name),
                                       "\n  port: ", service.port, "\n");
  if (!name.kubernetes_namespace.empty()) {
    absl::StrAppend(&reference, "  namespace: ", YamlString(name.kubernetes_namespace), "\n");
  }
  return reference;
}

// Lets the objects of a kind refer to a service of another namespace; "" if it is in theirs. Its
// name has their namespace: other applications may have grants beside it.
std::string ReferenceGrant(const Deployment& deployment, const HostPort& service,
                           absl::string_view name, absl::string_view group,
                           absl::string_view kind) {
  const ServiceName of = NameOf(service.host);
  if (of.kubernetes_namespace.empty() ||
      of.kubernetes_namespace == deployment.kubernetes_namespace) {
    return "";
  }
  return absl::StrCat(
      Head("gateway.networking.k8s.io/v1beta1", "ReferenceGrant",
           YamlString(absl::StrCat(name, "-", deployment.kubernetes_namespace)),
           of.kubernetes_namespace),
      "  # The namespace of the service lets these objects refer to it.\n"
      "  from:\n  - {group: ",
      group, ", kind: ", kind, ", namespace: ", YamlString(deployment.kubernetes_namespace),
      "}\n  to:\n  - {group: \"\", kind: Service, name: ", YamlString(of.name), "}\n");
}

std::string Matches(const EnvoyRoute& route) {
  const std::string path =
      absl::StrCat("path: {type: ", route.is_regex ? "RegularExpression" : "Exact",
                   ", value: ", YamlString(route.path), "}\n");
  if (route.http_methods.empty()) return ListItem(path);
  std::string matches;
  for (const std::string& method : route.http_methods) {
    absl::StrAppend(&matches, ListItem(absl::StrCat(path, "method: ", method, "\n")));
  }
  return matches;
}

// An item for each match, so that rules can be filled.
std::vector<std::string> AllMatches(const std::vector<EnvoyRoute>& routes) {
  std::vector<std::string> all;
  for (const EnvoyRoute& route : routes) {
    if (route.http_methods.empty()) all.push_back(Matches(route));
    if (!route.spellings.empty()) {
      EnvoyRoute other = route;
      other.path = route.spellings;
      other.is_regex = true;
      all.push_back(Matches(other));
    }
    for (const std::string& method : route.http_methods) {
      EnvoyRoute one = route;
      one.http_methods = {method};
      all.push_back(Matches(one));
    }
  }
  return all;
}

std::string Rule(const Deployment& deployment, const std::vector<std::string>& matches) {
  return ListItem(
      absl::StrCat("matches:\n", absl::StrJoin(matches, ""), BackendRef(deployment.upstream)));
}

// Of an HTTPRoute; "": those of all hosts of the gateway.
std::string Hostnames(const Deployment& deployment) {
  if (deployment.hostnames.empty()) return "";
  std::string hostnames = "  hostnames:\n";
  for (const std::string& hostname : deployment.hostnames) {
    absl::StrAppend(&hostnames, "  - ", YamlString(hostname), "\n");
  }
  return hostnames;
}

// The routes with these matches, named `name`-1 and so on. Their names are added to `names`.
std::string HttpRoutes(const Deployment& deployment, absl::string_view name,
                       const std::vector<std::string>& matches, std::vector<std::string>& names) {
  std::string routes;
  for (std::size_t first = 0; first < matches.size(); first += kMatchesOfRule * kRulesOfRoute) {
    names.push_back(absl::StrCat(name, "-", names.size() + 1));
    absl::StrAppend(&routes, Head(kGatewayApi, "HTTPRoute", names.back(), deployment),
                    "  parentRefs:\n  - name: ", YamlString(deployment.gateway), "\n",
                    Hostnames(deployment), "  rules:\n");
    const std::size_t end = std::min(matches.size(), first + kMatchesOfRule * kRulesOfRoute);
    for (std::size_t at = first; at < end; at += kMatchesOfRule) {
      const auto begin = matches.begin() + static_cast<std::ptrdiff_t>(at);
      const auto last =
          matches.begin() + static_cast<std::ptrdiff_t>(std::min(end, at + kMatchesOfRule));
      absl::StrAppend(&routes, Indented(Rule(deployment, {begin, last}), 2));
    }
  }
  return routes;
}

std::string Targets(const std::vector<std::string>& routes) {
  std::string targets = "  targetRefs:\n";
  for (const std::string& route : routes) {
    absl::StrAppend(&targets,
                    "  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: ", route, "}\n");
  }
  return targets;
}

std::string ExtensionPolicy(const Deployment& deployment, const std::vector<std::string>& routes) {
  return absl::StrCat(
      Head(kEnvoyGatewayApi, "EnvoyExtensionPolicy", "idempotency", deployment), Targets(routes),
      "  extProc:\n  - ", absl::StripPrefix(Indented(BackendRef(deployment.processor), 4), "    "),
      "    # Without the processor nothing runs: a request that passed could run a second time.\n"
      "    # Callers see 500, for gRPC UNKNOWN: Envoy Gateway has no field for another code.\n"
      "    failOpen: false\n"
      "    processingMode:\n"
      "      # The only mode in which the answer to the headers can wait for the whole body. It\n"
      "      # sends the trailers too.\n"
      "      request:\n"
      "        body: FullDuplexStreamed\n"
      "        # Who calls, from the verified certificate.\n"
      "        attributes:\n        - ",
      absl::StrJoin(kRequestAttributes, "\n        - "),
      "\n      response:\n"
      "        body: FullDuplexStreamed\n"
      "        # Only a reply that came via_upstream is an outcome.\n"
      "        attributes:\n        - ",
      absl::StrJoin(kResponseAttributes, "\n        - "),
      "\n    metadata:\n"
      "      # The claims of a verified token, for a scope that is a claim.\n"
      "      accessibleNamespaces: [envoy.filters.http.jwt_authn]\n");
}

std::string TrafficPolicies(const Deployment& deployment, const std::vector<std::string>& routes) {
  const std::string deadline = GatewayDuration(deployment.deadline);
  std::string policies = absl::StrCat(
      Head(kEnvoyGatewayApi, "BackendTrafficPolicy", "idempotency", deployment),
      "  # Attached to the guarded routes, so that a policy of the gateway does not apply to "
      "them:\n"
      "  # a retry below the filter would run the method again behind the record.\n",
      Targets(routes),
      "  retry: {numRetries: 0}\n"
      "  # A request above the limit fails behind its record, with an unknown outcome: the\n"
      "  # default is 1024.\n"
      "  circuitBreaker:\n    maxConnections: ",
      kMaxGuardedRequests, "\n    maxParallelRequests: ", kMaxGuardedRequests,
      "\n    maxPendingRequests: ", kMaxGuardedRequests,
      "\n  timeout:\n    http:\n"
      "      # The end of every exchange, also of one whose processor is stuck.\n"
      "      requestTimeout: ",
      deadline, "\n      maxStreamDuration: ", deadline,
      "\n      # A handler that works sends no bytes: the default is five minutes. The field is "
      "new in\n      # Envoy Gateway 1.8.\n      streamIdleTimeout: ",
      deadline, "\n", Head(kEnvoyGatewayApi, "ClientTrafficPolicy", "idempotency", deployment),
      "  # A gateway has one such policy: if yours has one, move these lines there.\n"
      "  targetRefs:\n  - {group: gateway.networking.k8s.io, kind: Gateway, name: ",
      YamlString(deployment.gateway),
      "}\n  path:\n    # One spelling of a path: another one must not bypass the routes.\n"
      "    escapedSlashesAction: RejectRequest\n    disableMergeSlashes: false\n"
      "  headers:\n    earlyRequestHeaders:\n"
      "      # No caller may send them: each changes which requests run again, or looks like an\n"
      "      # answer of the guard.\n      remove:\n");
  for (const std::string& header : StrippedHeaders(deployment)) {
    absl::StrAppend(&policies, "      - ", YamlString(header), "\n");
  }
  return policies;
}

}  // namespace

std::string EnvoyGatewayObjects(const Deployment& deployment) {
  std::vector<std::string> guarded;
  std::string objects = absl::StrCat(
      "# Written by `idempotencyctl envoy-config --format=envoy-gateway`. For gRPC the service's "
      "port\n# has `appProtocol: kubernetes.io/h2c`.\n"
      "# Remove the service's former routes (HTTPRoute, GRPCRoute): one with a more specific\n"
      "# hostname, or an older one with the same path, takes the calls, and they run unguarded.\n",
      HttpRoutes(deployment, "idempotency-guarded", AllMatches(deployment.guarded), guarded));
  std::vector<EnvoyRoute> rest;
  for (const std::string& path : deployment.streaming_paths) {
    rest.push_back({path, path, false, "", {}});
  }
  std::vector<std::string> matches = AllMatches(rest);
  matches.emplace_back("- path: {type: PathPrefix, value: \"/\"}\n");
  std::vector<std::string> unguarded;
  absl::StrAppend(&objects, HttpRoutes(deployment, "idempotency-rest", matches, unguarded),
                  ExtensionPolicy(deployment, guarded),
                  ReferenceGrant(deployment, deployment.processor, "idempotency-processor",
                                 "gateway.envoyproxy.io", "EnvoyExtensionPolicy"),
                  ReferenceGrant(deployment, deployment.upstream, "idempotency-upstream",
                                 "gateway.networking.k8s.io", "HTTPRoute"),
                  TrafficPolicies(deployment, guarded));
  return objects;
}

}  // namespace idempotency::internal
