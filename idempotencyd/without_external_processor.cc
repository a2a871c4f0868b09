// In place of external_processor_service.cc in a build without the guard.
#include "idempotencyd/external_processor_service.h"

namespace idempotency::internal {

absl::StatusOr<std::unique_ptr<FurtherService>> MakeExternalProcessor(
    const FurtherServiceParts& /*parts*/) {
  return absl::UnimplementedError("--ext_proc: this build has no external processor");
}

absl::Status CheckExternalProcessor(const LoadedConfig& config) {
  if (!config.config.has_external_processor()) return absl::OkStatus();
  return absl::UnimplementedError(
      "external_processor is not checked: this build has no external processor");
}

}  // namespace idempotency::internal
