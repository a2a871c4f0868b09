#include "grpc_idempotency/embedded/service_metrics.h"

#include "server/observability/metrics.h"

namespace idempotency {

ServiceMetrics::ServiceMetrics()
    : metrics_(std::make_unique<internal::Metrics>()), observer_(*metrics_) {}

ServiceMetrics::ServiceMetrics(internal::Observer& observer) : observer_(observer) {}

ServiceMetrics::~ServiceMetrics() = default;

const std::shared_ptr<prometheus::Registry>& ServiceMetrics::registry() const {
  return metrics_->registry();
}

}  // namespace idempotency
