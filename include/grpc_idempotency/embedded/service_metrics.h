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
// exposes (docs/metrics.md). It is in a separate library, idempotency::metrics, which links
// prometheus-cpp.
//
//   ServiceMetrics metrics;
//   EmbeddedOptions options;
//   options.metrics = &metrics;
//   exposer.RegisterCollectable(metrics.registry());
//
// Belongs to one service: a gauge shows the last value set. Must outlive the service and its
// channel. Thread-safe.
class ServiceMetrics {
 public:
  ServiceMetrics();
  ~ServiceMetrics();
  ServiceMetrics(const ServiceMetrics&) = delete;
  ServiceMetrics& operator=(const ServiceMetrics&) = delete;

  // For the program's exposer. Never null.
  const std::shared_ptr<prometheus::Registry>& registry() const;

 protected:
  // For tests that count by themselves. It has no registry.
  explicit ServiceMetrics(internal::Observer& observer);

 private:
  friend class EmbeddedService;

  // Inline: an embedded service without metrics does not link this library.
  internal::Observer& observer() const { return observer_; }

  const std::unique_ptr<internal::Metrics> metrics_;
  internal::Observer& observer_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_EMBEDDED_SERVICE_METRICS_H_
