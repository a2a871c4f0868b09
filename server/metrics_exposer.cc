#include "server/metrics_exposer.h"

#include <exception>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace idempotency {

absl::StatusOr<std::unique_ptr<MetricsExposer>> MetricsExposer::Start(
    const NetworkAddress& address, const std::shared_ptr<prometheus::Registry>& registry) {
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(address.ToString());
  } catch (const std::exception&) {
    // What civetweb throws does not say why.
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address.ToString(),
                     " for metrics: the port may be in use, or the address not of this machine"));
  }
  exposer->RegisterCollectable(registry);
  NetworkAddress bound = address;
  if (const std::vector<int> ports = exposer->GetListeningPorts(); !ports.empty()) {
    bound.port = static_cast<std::uint16_t>(ports.front());
  }
  return std::unique_ptr<MetricsExposer>(new MetricsExposer(std::move(exposer), std::move(bound)));
}

MetricsExposer::MetricsExposer(std::unique_ptr<prometheus::Exposer> exposer, NetworkAddress address)
    : exposer_(std::move(exposer)), address_(std::move(address)) {}

}  // namespace idempotency
