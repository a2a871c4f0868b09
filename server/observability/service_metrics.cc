#include "grpc_idempotency/embedded/service_metrics.h"

#include "server/observability/metrics.h"

namespace idempotency {

ServiceMetrics::ServiceMetrics() : metrics_(std::make_unique<internal::Metrics>()) {}

ServiceMetrics::~ServiceMetrics() = default;

internal::Observer* ServiceMetrics::observer() { return metrics_.get(); }

const std::shared_ptr<prometheus::Registry>& ServiceMetrics::registry() const {
  return metrics_->registry();
}

}  // namespace idempotency
