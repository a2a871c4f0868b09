// The service inside another program, with its metrics: service_options.h, service_metrics.h.
#include <prometheus/exposer.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "grpc_idempotency/embedded/embedded_service.h"
#include "grpc_idempotency/embedded/service_metrics.h"
#include "grpc_idempotency/embedded/service_options.h"

namespace examples {

// `metrics` outlives the service and its channel.
absl::StatusOr<std::unique_ptr<idempotency::EmbeddedService>> OpenWithMetrics(
    const std::string& store, idempotency::ServiceMetrics& metrics, prometheus::Exposer& exposer) {
  exposer.RegisterCollectable(metrics.registry());
  idempotency::EmbeddedOptions options;
  options.metrics = &metrics;
  options.sweep_interval = absl::Minutes(5);
  options.queue_mib = 256;
  const absl::Status valid = idempotency::ValidateServiceOptions(options);
  if (!valid.ok()) return valid;
  return idempotency::EmbeddedService::Open(store, options);
}

}  // namespace examples
