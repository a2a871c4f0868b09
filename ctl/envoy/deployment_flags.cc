#include "ctl/envoy/deployment_flags.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "ctl/envoy/guarded_methods.h"
#include "ctl/local_address.h"

namespace idempotency::internal {
namespace {

// Of an organisation's whole API; each route costs Envoy a comparison for each request.
constexpr std::size_t kMaxDescriptorBytes = 64 * 1024 * 1024;
constexpr std::size_t kMaxRoutes = 10'000;
// The Gateway API's limits: characters of a hostname, hostnames of a route.
constexpr std::size_t kMaxHostname = 253;
constexpr std::size_t kMaxHostnames = 16;
constexpr absl::Duration kMinDeadline = absl::Milliseconds(100);
constexpr absl::Duration kMaxDeadline = absl::Hours(24);

absl::Status Wrong(absl::string_view flag, absl::string_view value, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, ": ", remedy));
}

bool IsIpAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

absl::StatusOr<HostPort> ReadHostPort(absl::string_view flag, absl::string_view text,
                                      bool is_bound) {
  const std::size_t colon = text.rfind(':');
  HostPort address;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &address.port) ||
      address.port < (is_bound ? 0 : 1) || address.port > 65535) {
    return text.empty() ? absl::InvalidArgumentError(absl::StrCat("--", flag, " is missing"))
                        : Wrong(flag, text, "write HOST:PORT, for example 127.0.0.1:8080");
  }
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return Wrong(flag, text, "write an IPv6 address as [ADDRESS]:PORT");
  }
  address.host = std::string(host);
  const bool is_ip = IsIpAddress(address.host);
  if (is_bound && !is_ip) return Wrong(flag, text, "Envoy listens on an IP address");
  const bool is_name = std::all_of(host.begin(), host.end(), [](char character) {
    return absl::ascii_isalnum(static_cast<unsigned char>(character)) || character == '.' ||
           character == '-' || character == '_';
  });
  if (!is_ip && !is_name) return Wrong(flag, text, "its host is neither a name nor an address");
  return address;
}

absl::StatusOr<std::string> Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kMaxDescriptorBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.is_open() || file.bad()) return Wrong("descriptors", path, "it cannot be read");
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  if (bytes.size() <= kMaxDescriptorBytes) return bytes;
  return Wrong("descriptors", path,
               absl::StrCat("it has more than ", kMaxDescriptorBytes, " bytes"));
}

absl::Status ReadDescriptorFile(const std::string& path, bool skip_streaming,
                                Deployment& deployment) {
  const absl::StatusOr<std::string> bytes = Content(path);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<MethodsOfDescriptors> methods = ReadDescriptors(*bytes);
  if (!methods.ok()) return Wrong("descriptors", path, methods.status().message());
  if (!methods->streaming_with_policy.empty() && !skip_streaming) {
    return Wrong("descriptors", path,
                 absl::StrCat("a proxy cannot guard streaming methods, and these have a policy: ",
                              absl::StrJoin(methods->streaming_with_policy, ", "),
                              "; guard them in the service, or leave them unguarded with "
                              "--skip_streaming"));
  }
  for (const std::string& method : methods->streaming) {
    deployment.streaming_paths.push_back(absl::StrCat("/", method));
  }
  for (const std::string& method : methods->guarded) {
    absl::StatusOr<EnvoyRoute> route = RouteOfMethod(method);
    if (!route.ok()) return route.status();
    deployment.guarded.push_back(*std::move(route));
  }
  return absl::OkStatus();
}

using RouteReader = absl::StatusOr<EnvoyRoute> (*)(absl::string_view);

absl::Status ReadPatterns(absl::string_view flag, absl::string_view list, RouteReader read,
                          Deployment& deployment) {
  for (const absl::string_view pattern : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    absl::StatusOr<EnvoyRoute> route = read(absl::StripAsciiWhitespace(pattern));
    if (!route.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", route.status().message()));
    }
    deployment.guarded.push_back(*std::move(route));
  }
  return absl::OkStatus();
}

// A wildcard also finds what stands as itself; the order decides nothing but the name.
void RemoveRepeated(std::vector<EnvoyRoute>& routes) {
  std::vector<EnvoyRoute> once;
  for (EnvoyRoute& route : routes) {
    const bool is_repeated = std::any_of(once.begin(), once.end(), [&](const EnvoyRoute& other) {
      return other.path == route.path && other.http_methods == route.http_methods;
    });
    if (!is_repeated) once.push_back(std::move(route));
  }
  routes = std::move(once);
}

bool IsHeaderName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char character) {
    return absl::ascii_islower(static_cast<unsigned char>(character)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(character)) || character == '-' ||
           character == '_' || character == '.';
  });
}

// As the Gateway API requires: labels of lower case, of which the first may be "*".
bool IsHostname(absl::string_view name) {
  if (name.size() > kMaxHostname) return false;
  absl::ConsumePrefix(&name, "*.");
  const std::vector<absl::string_view> labels = absl::StrSplit(name, '.');
  return !IsIpAddress(std::string(name)) &&
         std::all_of(labels.begin(), labels.end(), [](absl::string_view label) {
           return !label.empty() && label.front() != '-' && label.back() != '-' &&
                  std::all_of(label.begin(), label.end(), [](char character) {
                    return absl::ascii_islower(static_cast<unsigned char>(character)) ||
                           absl::ascii_isdigit(static_cast<unsigned char>(character)) ||
                           character == '-';
                  });
         });
}

// Of a certificate and its key, both or none.
absl::Status CheckPair(absl::string_view prefix, const EnvoyTlsFiles& tls) {
  if (tls.cert.empty() == tls.key.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", prefix, "_cert and --", prefix, "_key need each other"));
}

// The name in a peer's certificate is its host, unless a flag has it.
absl::Status CompletePeer(absl::string_view prefix, const HostPort& peer, EnvoyTlsFiles& tls) {
  if (const absl::Status pair = CheckPair(prefix, tls); !pair.ok()) return pair;
  if (tls.ca.empty() && (!tls.cert.empty() || !tls.name.empty())) {
    return absl::InvalidArgumentError(absl::StrCat("--", prefix, "_ca is missing"));
  }
  if (tls.name.empty()) tls.name = peer.host;
  return absl::OkStatus();
}

// Of Envoy's connections to a server that the help calls `peer`.
void AddPeerTlsFlags(absl::string_view prefix, absl::string_view peer, EnvoyTlsFiles& tls,
                     FlagSet& flags) {
  flags.AddText(
      absl::StrCat(prefix, "_ca"), "FILE", &tls.ca,
      absl::StrCat("PEM file of the authorities of ", peer, "'s certificate: connect with TLS."));
  flags.AddText(absl::StrCat(prefix, "_cert"), "FILE", &tls.cert,
                absl::StrCat("PEM file of Envoy's certificate for ", peer, "."));
  flags.AddText(absl::StrCat(prefix, "_key"), "FILE", &tls.key, "PEM file of its private key.");
  flags.AddText(absl::StrCat(prefix, "_name"), "NAME", &tls.name,
                absl::StrCat("The name in ", peer, "'s certificate, if it is not the host."));
}

// Refuses the flags of `prefix` with `remedy`, if any of them is set.
absl::Status CheckAbsent(absl::string_view prefix, absl::string_view ca_suffix,
                         const EnvoyTlsFiles& tls, absl::string_view remedy) {
  struct Flag {
    absl::string_view suffix;
    const std::string& value;
  };
  for (const Flag& flag : {Flag{ca_suffix, tls.ca}, Flag{"_cert", tls.cert}, Flag{"_key", tls.key},
                           Flag{"_name", tls.name}}) {
    if (flag.value.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", prefix, flag.suffix, ": ", remedy,
                                                   ", and leave out --", prefix, flag.suffix));
  }
  return absl::OkStatus();
}

std::string Bracketed(const HostPort& address) {
  return absl::StrContains(address.host, ':') ? absl::StrCat("[", address.host, "]:", address.port)
                                              : absl::StrCat(address.host, ":", address.port);
}

}  // namespace

void DeploymentFlags::AddTo(FlagSet& flags) {
  flags.AddText("descriptors", "FILE", &descriptors_,
                "A FileDescriptorSet (protoc --include_imports --descriptor_set_out). Its unary\n"
                "methods are guarded as their option (idempotency.v1.policy) states; without one,\n"
                "unless their idempotency_level is NO_SIDE_EFFECTS or IDEMPOTENT.");
  flags.AddText("methods", "PATTERNS", &methods_,
                "gRPC methods to guard, separated by commas: payments.v1.Payments/Charge, or\n"
                "payments.v1.*/Create*, where * stands for any characters but /.");
  flags.AddText("http_routes", "ROUTES", &http_routes_,
                "Routes of HTTP to guard, separated by commas: 'POST /v1/payments' or\n"
                "'POST|PATCH /v1/payments/{id}', where {name} and * stand for one segment.");
  flags.AddSwitch("skip_streaming", &skip_streaming_,
                  "Leave streaming methods unguarded although the descriptors have a policy for\n"
                  "them.");
  flags.AddText("upstream", "HOST:PORT", &upstream_,
                "The service. In Kubernetes: the name of its Service. Required.");
  flags.AddText(
      "upstream_protocol", "NAME", &upstream_protocol_,
      "The version of HTTP that the service speaks: http1, http2, or caller for that of\n"
      "each caller. Default: http2 if only gRPC methods are guarded, http1 if only\n"
      "--http_routes are, otherwise caller. A guarded request in another version than the\n"
      "service's fails, with an unknown outcome.");
  flags.AddText("processor", "HOST:PORT", &processor_,
                "The port for external processing of idempotencyd (--ext_proc). Required.");
  flags.AddText("listen", "IP:PORT", &listen_, "Where Envoy accepts callers; port 0: a free one.");
  flags.AddText("admin", "IP:PORT", &admin_,
                "Envoy's administration page, which can stop Envoy: for trusted callers only.");
  flags.AddDuration("deadline", &deadline_, kMinDeadline, kMaxDeadline,
                    "The longest time of a guarded request. Later its outcome is unknown.");
  flags.AddText("strip_headers", "NAMES", &strip_headers_,
                "More headers that callers must not send, separated by commas: the one that is\n"
                "the scope, if a filter of this Envoy sets it.");
  flags.AddText("tls_cert", "FILE", &listener_tls_.cert, "PEM file of Envoy's certificate chain.");
  flags.AddText("tls_key", "FILE", &listener_tls_.key, "PEM file of its private key.");
  flags.AddText("tls_client_ca", "FILE", &listener_tls_.ca,
                "PEM file of the authorities of callers' certificates. Callers then need one.");
  AddPeerTlsFlags("upstream_tls", "the service", upstream_tls_, flags);
  AddPeerTlsFlags("processor_tls", "idempotencyd", processor_tls_, flags);
  flags.AddSwitch("allow_plaintext", &allow_plaintext_,
                  "Permit the listener and the processor on other machines without TLS. Requests\n"
                  "and replies can then be read and changed on the network.");
  flags.AddText("envoy_version", "VERSION", &envoy_version_,
                "The oldest Envoy that reads it, 1.37 or later.");
  flags.AddText("kubernetes_namespace", "NAME", &kubernetes_namespace_,
                "The namespace of the objects, for istio and envoy-gateway.");
  flags.AddText("gateway", "NAME", &gateway_, "The Gateway, for envoy-gateway.");
  flags.AddText("hostnames", "NAMES", &hostnames_,
                "The hosts of the service, for envoy-gateway: pay.example.com, separated by\n"
                "commas. Without them the routes are those of all hosts of the Gateway.");
  flags.AddText("workload", "LABELS", &workload_,
                "The labels of the service's pods, for istio: app=payments, separated by commas.");
}

absl::StatusOr<Deployment> DeploymentFlags::Read(Format format) const {
  Deployment deployment;
  deployment.deadline = deadline_;
  int minor = 0;
  absl::string_view version = envoy_version_;
  if (!absl::ConsumePrefix(&version, "1.") ||
      !absl::SimpleAtoi(version.substr(0, version.find('.')), &minor) || minor < 37) {
    return Wrong("envoy_version", envoy_version_,
                 "write 1.37 or later; an older Envoy cannot replay a reply");
  }
  deployment.has_content_length_option = minor >= 40;
  for (const absl::string_view name : absl::StrSplit(strip_headers_, ',', absl::SkipWhitespace())) {
    const absl::string_view header = absl::StripAsciiWhitespace(name);
    if (!IsHeaderName(header) || header == "idempotency-key") {
      return Wrong("strip_headers", header, "write names of headers in lower case, not the key's");
    }
    deployment.stripped_headers.emplace_back(header);
  }
  if (const absl::Status read = ReadAddresses(format, deployment); !read.ok()) return read;
  if (const absl::Status used = CheckTlsFlags(format); !used.ok()) return used;
  if (const absl::Status read = ReadTls(format, deployment); !read.ok()) return read;
  if (const absl::Status read = ReadMethods(deployment); !read.ok()) return read;
  if (const absl::Status read = ReadUpstreamProtocol(format, deployment); !read.ok()) return read;
  if (const absl::Status read = ReadKubernetes(format, deployment); !read.ok()) return read;
  return deployment;
}

absl::Status DeploymentFlags::CheckTlsFlags(Format format) const {
  if (format == Format::kEnvoy) return absl::OkStatus();
  const bool is_istio = format == Format::kIstio;
  absl::Status absent =
      CheckAbsent("tls", "_client_ca", listener_tls_,
                  is_istio ? "a sidecar takes the TLS of its callers from a PeerAuthentication: "
                             "write one"
                           : "a Gateway takes the TLS of its callers from its listeners, and their "
                             "authorities from a ClientTrafficPolicy: write it there");
  if (!absent.ok()) return absent;
  absent = CheckAbsent("upstream_tls", "_ca", upstream_tls_,
                       is_istio ? "a sidecar reaches its own service inside the pod: let the "
                                  "service accept plaintext there"
                                : "a Gateway takes TLS to the service from a BackendTLSPolicy: "
                                  "write one");
  if (!absent.ok() || is_istio) return absent;
  return CheckAbsent("processor_tls", "_ca", processor_tls_,
                     "a Gateway takes TLS to the processor from a BackendTLSPolicy: write one");
}

absl::Status DeploymentFlags::ReadAddresses(Format format, Deployment& deployment) const {
  struct Address {
    absl::string_view flag;
    const std::string& text;
    HostPort& address;
    bool is_bound;
  };
  for (const Address& one : {Address{"upstream", upstream_, deployment.upstream, false},
                             Address{"processor", processor_, deployment.processor, false},
                             Address{"listen", listen_, deployment.listen, true},
                             Address{"admin", admin_, deployment.admin, true}}) {
    absl::StatusOr<HostPort> address = ReadHostPort(one.flag, one.text, one.is_bound);
    if (!address.ok()) return address.status();
    if (format == Format::kEnvoyGateway && !one.is_bound && IsIpAddress(address->host)) {
      return Wrong(one.flag, one.text,
                   "a Gateway refers to a Service by its name: write NAME:PORT, or "
                   "NAME.NAMESPACE:PORT");
    }
    one.address = *std::move(address);
  }
  return absl::OkStatus();
}

absl::Status DeploymentFlags::ReadTls(Format format, Deployment& deployment) const {
  deployment.listener_tls = listener_tls_;
  deployment.upstream_tls = upstream_tls_;
  deployment.processor_tls = processor_tls_;
  if (const absl::Status pair = CheckPair("tls", listener_tls_); !pair.ok()) return pair;
  if (listener_tls_.cert.empty() && !listener_tls_.ca.empty()) {
    return absl::InvalidArgumentError("--tls_cert is missing: --tls_client_ca needs it");
  }
  if (const absl::Status peer =
          CompletePeer("upstream_tls", deployment.upstream, deployment.upstream_tls);
      !peer.ok()) {
    return peer;
  }
  if (const absl::Status peer =
          CompletePeer("processor_tls", deployment.processor, deployment.processor_tls);
      !peer.ok()) {
    return peer;
  }
  if (format != Format::kEnvoy || allow_plaintext_) return absl::OkStatus();
  if (listener_tls_.cert.empty() && !IsLocal(Bracketed(deployment.listen))) {
    return Wrong("listen", listen_,
                 "callers of other machines need TLS: set --tls_cert, --tls_key and "
                 "--tls_client_ca, or --allow_plaintext");
  }
  if (processor_tls_.ca.empty() && !IsLocal(Bracketed(deployment.processor))) {
    return Wrong("processor", processor_,
                 "it is another machine: set --processor_tls_ca, or --allow_plaintext");
  }
  return absl::OkStatus();
}

absl::Status DeploymentFlags::ReadMethods(Deployment& deployment) const {
  if (!descriptors_.empty()) {
    const absl::Status read = ReadDescriptorFile(descriptors_, skip_streaming_, deployment);
    if (!read.ok()) return read;
  }
  absl::Status read = ReadPatterns("methods", methods_, &RouteOfMethod, deployment);
  if (read.ok()) read = ReadPatterns("http_routes", http_routes_, &RouteOfHttp, deployment);
  if (!read.ok()) return read;
  if (deployment.guarded.empty()) {
    return absl::InvalidArgumentError(
        "no method is guarded: give --descriptors, --methods or --http_routes");
  }
  if (deployment.guarded.size() + deployment.streaming_paths.size() > kMaxRoutes) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxRoutes, " routes: use wildcards in --methods"));
  }
  RemoveRepeated(deployment.guarded);
  return absl::OkStatus();
}

absl::Status DeploymentFlags::ReadUpstreamProtocol(Format format, Deployment& deployment) const {
  if (!upstream_protocol_.empty() && format != Format::kEnvoy) {
    return Wrong("upstream_protocol", upstream_protocol_,
                 "in Kubernetes the Service's port has it (appProtocol): leave the flag out");
  }
  const std::string& protocol = upstream_protocol_;
  const bool has_http = HasHttpRoutes(deployment);
  const bool has_grpc =
      std::any_of(deployment.guarded.begin(), deployment.guarded.end(),
                  [](const EnvoyRoute& route) { return route.http_methods.empty(); });
  if (protocol == "http1" || (protocol.empty() && !has_grpc)) {
    deployment.upstream_protocol = UpstreamProtocol::kHttp1;
  } else if (protocol == "http2" || (protocol.empty() && !has_http)) {
    deployment.upstream_protocol = UpstreamProtocol::kHttp2;
  } else if (!protocol.empty() && protocol != "caller") {
    return Wrong("upstream_protocol", protocol, "write http1, http2 or caller");
  }
  return absl::OkStatus();
}

absl::Status DeploymentFlags::ReadKubernetes(Format format, Deployment& deployment) const {
  deployment.kubernetes_namespace = kubernetes_namespace_;
  deployment.gateway = gateway_;
  for (const absl::string_view label : absl::StrSplit(workload_, ',', absl::SkipWhitespace())) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(label, absl::MaxSplits('=', 1));
    if (parts.first.empty() || parts.second.empty()) {
      return Wrong("workload", workload_, "write NAME=VALUE, for example app=payments");
    }
    deployment.workload_labels.push_back(parts);
  }
  return ReadHostnames(format, deployment);
}

absl::Status DeploymentFlags::ReadHostnames(Format format, Deployment& deployment) const {
  if (!hostnames_.empty() && format != Format::kEnvoyGateway) {
    return Wrong("hostnames", hostnames_, "only --format=envoy-gateway has a place for it");
  }
  for (const absl::string_view name : absl::StrSplit(hostnames_, ',', absl::SkipWhitespace())) {
    const absl::string_view hostname = absl::StripAsciiWhitespace(name);
    if (!IsHostname(hostname)) {
      return Wrong("hostnames", hostname,
                   "write names of hosts in lower case: pay.example.com or *.example.com");
    }
    deployment.hostnames.emplace_back(hostname);
  }
  if (deployment.hostnames.size() > kMaxHostnames) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hostnames: an HTTPRoute has ", kMaxHostnames, " at the most"));
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal
