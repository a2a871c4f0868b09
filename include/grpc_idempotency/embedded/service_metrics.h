#ifndef GRPC_IDEMPOTENCY_EMBEDDED_SERVICE_METRICS_H_
#define GRPC_IDEMPOTENCY_EMBEDDED_SERVICE_METRICS_H_

#include <memory>

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace idempotency {
namespace internal {
class Metrics;
class Observer;
}  // namespace internal

// The metrics of an embedded service, with the names, types and labels that idempotencyd
// exposes (docs/operations.md). In a library of its own, idempotency::metrics, which links
// prometheus-cpp.
//
//   ServiceMetrics metrics;
//   EmbeddedOptions options;
//   options.observer = metrics.observer();
//   exposer.RegisterCollectable(metrics.registry());
//
// Outlives the service and its channel. Thread-safe.
class ServiceMetrics {
 public:
  ServiceMetrics();
  ~ServiceMetrics();
  ServiceMetrics(const ServiceMetrics&) = delete;
  ServiceMetrics& operator=(const ServiceMetrics&) = delete;

  // For EmbeddedOptions::observer, of one service: its gauges are the last values.
  internal::Observer* observer();
  // For an exposer of the program's. Never null.
  const std::shared_ptr<prometheus::Registry>& registry() const;

 private:
  const std::unique_ptr<internal::Metrics> metrics_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_EMBEDDED_SERVICE_METRICS_H_
