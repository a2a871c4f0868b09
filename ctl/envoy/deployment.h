#ifndef IDEMPOTENCY_CTL_ENVOY_DEPLOYMENT_H_
#define IDEMPOTENCY_CTL_ENVOY_DEPLOYMENT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "ctl/envoy/envoy_route.h"

namespace idempotency::internal {

struct HostPort {
  std::string host;
  int port = 0;
};

// PEM files on the proxy's machine; empty: not used.
struct EnvoyTlsFiles {
  std::string ca;
  std::string cert;
  std::string key;
  // The name in the peer's certificate.
  std::string name;
};

// The version of HTTP in which a proxy calls the service.
enum class UpstreamProtocol { kOfCaller, kHttp1, kHttp2 };

// A proxy in front of a service, and what it guards there.
struct Deployment {
  HostPort listen;
  HostPort admin;
  HostPort upstream;
  UpstreamProtocol upstream_protocol = UpstreamProtocol::kOfCaller;
  HostPort processor;
  // `ca` is of the callers' certificates.
  EnvoyTlsFiles listener_tls;
  EnvoyTlsFiles upstream_tls;
  EnvoyTlsFiles processor_tls;

  // In the order in which a proxy compares them; the first one that matches applies.
  // Never guarded, although one of `guarded` may match: exact paths of streaming methods.
  std::vector<std::string> streaming_paths;
  std::vector<EnvoyRoute> guarded;

  // Headers that a caller must not send, in addition to those of StrippedHeaders().
  std::vector<std::string> stripped_headers;
  // The end of each guarded request.
  absl::Duration deadline;
  // Envoy 1.40 and later pass the processor's content-length on, 1.37 does not have the option.
  bool has_content_length_option = true;

  // The names of objects in Kubernetes.
  std::string kubernetes_namespace;
  std::string gateway;
  // Of the HTTPRoutes; none: all hosts of the gateway.
  std::vector<std::string> hostnames;
  std::vector<std::pair<std::string, std::string>> workload_labels;
};

// Whether a guarded route is one of HTTP.
bool HasHttpRoutes(const Deployment& deployment);

// The headers that decide something here and that no caller may send, sorted: those with which a
// caller sets retries, hedging and deadlines of Envoy's router, and those that only a reply has.
// With routes of HTTP in the spellings with underscores too.
std::vector<std::string> StrippedHeaders(const Deployment& deployment);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_ENVOY_DEPLOYMENT_H_
