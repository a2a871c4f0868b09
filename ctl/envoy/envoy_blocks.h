#ifndef IDEMPOTENCY_CTL_ENVOY_ENVOY_BLOCKS_H_
#define IDEMPOTENCY_CTL_ENVOY_ENVOY_BLOCKS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "ctl/envoy/deployment.h"

namespace idempotency::internal {

// Blocks of Envoy's own configuration (v3), in YAML from column 0, with the reasons as comments.
// Every format that gives Envoy its own messages is made of them.

// The HTTP filter that removes StrippedHeaders(). It must be the first one.
std::string StripFilter(const Deployment& deployment);

// The HTTP filter that calls the processor, which sends nothing until a route has it do so.
// `cluster` is the processor's.
std::string ProcessorFilter(const Deployment& deployment, absl::string_view cluster);

// Routes in the order in which Envoy compares them: streaming methods, then the guarded ones.
// `cluster` is the upstream.
std::vector<std::string> Routes(const Deployment& deployment, absl::string_view cluster);

// The cluster `name` of the processor.
std::string ProcessorCluster(const Deployment& deployment, absl::string_view name);

// A transport socket that connects with TLS and checks the peer's name. Empty without a CA.
std::string UpstreamTls(const EnvoyTlsFiles& tls, bool is_http2_only);

// An item of a cluster's load_assignment, or of a listener: its address.
std::string SocketAddress(const HostPort& address);

// A duration of protobuf's JSON: "30s".
std::string DurationText(absl::Duration duration);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_ENVOY_ENVOY_BLOCKS_H_
