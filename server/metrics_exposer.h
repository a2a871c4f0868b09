#ifndef IDEMPOTENCY_SERVER_METRICS_EXPOSER_H_
#define IDEMPOTENCY_SERVER_METRICS_EXPOSER_H_

#include <prometheus/exposer.h>
#include <prometheus/registry.h>

#include <memory>

#include "absl/status/statusor.h"

#include "server/network_address.h"

namespace idempotency {

// Answers GET /metrics over plain HTTP, on threads of its own, until it is
// destroyed.
class MetricsExposer {
 public:
  // FAILED_PRECONDITION if it cannot listen there. Answers scrapes as long as
  // the registry lives.
  static absl::StatusOr<std::unique_ptr<MetricsExposer>> Start(
      const NetworkAddress& address, const std::shared_ptr<prometheus::Registry>& registry);

  // Stops listening; returns at once if no scrape is being answered.
  ~MetricsExposer();

  // With the real port where 0 was asked for.
  const NetworkAddress& address() const { return address_; }

 private:
  MetricsExposer(std::unique_ptr<prometheus::Exposer> exposer, NetworkAddress address);

  std::unique_ptr<prometheus::Exposer> exposer_;
  const NetworkAddress address_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_METRICS_EXPOSER_H_
