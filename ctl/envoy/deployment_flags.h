#ifndef IDEMPOTENCY_CTL_ENVOY_DEPLOYMENT_FLAGS_H_
#define IDEMPOTENCY_CTL_ENVOY_DEPLOYMENT_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"

#include "command_line/flag_set.h"
#include "ctl/envoy/deployment.h"

namespace idempotency::internal {

// The flags that describe a deployment, and the deployment that they describe. Thread-compatible.
class DeploymentFlags {
 public:
  void AddTo(FlagSet& flags);

  // The form in which the deployment is written.
  enum class Format { kEnvoy, kIstio, kEnvoyGateway };

  // Reads the descriptors. INVALID_ARGUMENT: what to write instead. A TLS flag that the format has
  // no place for is refused. For kEnvoy a connection to another machine without TLS is refused,
  // unless a flag permits it; in a mesh its own TLS is between the pods.
  absl::StatusOr<Deployment> Read(Format format) const;

 private:
  absl::Status CheckTlsFlags(Format format) const;
  absl::Status ReadAddresses(Format format, Deployment& deployment) const;
  absl::Status ReadTls(Format format, Deployment& deployment) const;
  absl::Status ReadMethods(Deployment& deployment) const;
  // After ReadMethods().
  absl::Status ReadUpstreamProtocol(Format format, Deployment& deployment) const;
  absl::Status ReadKubernetes(Format format, Deployment& deployment) const;
  absl::Status ReadHostnames(Format format, Deployment& deployment) const;

  std::string envoy_version_ = "1.40";
  std::string descriptors_;
  std::string methods_;
  std::string http_routes_;
  bool skip_streaming_ = false;
  std::string upstream_;
  std::string upstream_protocol_;
  std::string processor_;
  std::string listen_ = "127.0.0.1:8080";
  std::string admin_ = "127.0.0.1:9901";
  absl::Duration deadline_ = absl::Seconds(30);
  std::string strip_headers_;
  EnvoyTlsFiles listener_tls_;
  EnvoyTlsFiles upstream_tls_;
  EnvoyTlsFiles processor_tls_;
  bool allow_plaintext_ = false;
  std::string kubernetes_namespace_ = "default";
  std::string gateway_ = "eg";
  std::string hostnames_;
  std::string workload_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_ENVOY_DEPLOYMENT_FLAGS_H_
