#include "server/service_options.h"

#include "absl/strings/str_cat.h"

namespace idempotency {
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
