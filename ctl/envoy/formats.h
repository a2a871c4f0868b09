#ifndef IDEMPOTENCY_CTL_ENVOY_FORMATS_H_
#define IDEMPOTENCY_CTL_ENVOY_FORMATS_H_

#include <string>

#include "ctl/envoy/deployment.h"

namespace idempotency::internal {

// A deployment as configuration. The same deployment is always the same text. Each in the file of
// its name.

// Envoy's own bootstrap, for `envoy -c`.
std::string StaticBootstrap(const Deployment& deployment);

// An EnvoyFilter of Istio for the sidecars of a workload: the guard is where the service is, so
// that no caller inside the mesh bypasses it.
std::string IstioEnvoyFilter(const Deployment& deployment);

// Objects of the Gateway API and of Envoy Gateway: HTTPRoutes for the guarded methods and for the
// rest, and the policies for the guarded ones.
std::string EnvoyGatewayObjects(const Deployment& deployment);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_ENVOY_FORMATS_H_
