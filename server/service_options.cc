#include "server/service_options.h"

#include "absl/strings/str_cat.h"

namespace idempotency {
namespace {

absl::Status CheckRange(absl::string_view name, absl::Duration value, absl::Duration low,
                        absl::Duration high) {
  if (low <= value && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be ", absl::FormatDuration(low),
                                                 " to ", absl::FormatDuration(high)));
}

}  // namespace

absl::Status ValidateServiceOptions(const ServiceOptions& options) {
  if (options.store_connections < 1 ||
      options.store_connections > ServiceOptions::kMaxStoreConnections) {
    return absl::InvalidArgumentError(
        absl::StrCat("store_connections must be 1 to ", ServiceOptions::kMaxStoreConnections));
  }
  absl::Status status =
      CheckRange("sweep_interval", options.sweep_interval, ServiceOptions::kMinSweepInterval,
                 ServiceOptions::kMaxSweepInterval);
  status.Update(CheckRange("drain_timeout", options.drain_timeout, absl::ZeroDuration(),
                           ServiceOptions::kMaxDrainTimeout));
  return status;
}

}  // namespace idempotency
