#include "grpc_idempotency/embedded/service_options.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"

namespace idempotency {

int ServiceOptions::DefaultStoreConnections() {
  // An unknown number of processors is 0.
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 2U, 4U));
}

absl::Status ValidateServiceOptions(const ServiceOptions& options) {
  if (options.store_connections < 1 ||
      options.store_connections > ServiceOptions::kMaxStoreConnections) {
    return absl::InvalidArgumentError(
        absl::StrCat("store_connections must be 1 to ", ServiceOptions::kMaxStoreConnections));
  }
  if (options.sweep_interval < ServiceOptions::kMinSweepInterval ||
      options.sweep_interval > ServiceOptions::kMaxSweepInterval) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sweep_interval must be ", absl::FormatDuration(ServiceOptions::kMinSweepInterval), " to ",
        absl::FormatDuration(ServiceOptions::kMaxSweepInterval)));
  }
  if (options.queue_mib < ServiceOptions::kMinQueueMib ||
      options.queue_mib > ServiceOptions::kMaxQueueMib) {
    return absl::InvalidArgumentError(absl::StrCat(
        "queue_mib must be ", ServiceOptions::kMinQueueMib, " to ", ServiceOptions::kMaxQueueMib));
  }
  return absl::OkStatus();
}

}  // namespace idempotency
