#ifndef IDEMPOTENCY_IDEMPOTENCYD_EXTERNAL_PROCESSOR_SERVICE_H_
#define IDEMPOTENCY_IDEMPOTENCYD_EXTERNAL_PROCESSOR_SERVICE_H_

#include <memory>

#include "absl/status/statusor.h"

#include "server/process/further_service.h"

namespace idempotency::internal {

// The external processor over the daemon's own operations: a decision makes no further hop.
// INVALID_ARGUMENT lists the faults of the configuration's section.
absl::StatusOr<std::unique_ptr<FurtherService>> MakeExternalProcessor(
    const FurtherServiceParts& parts);

// OK if the configuration has no external processor, or one that is valid. UNIMPLEMENTED if it has
// one, and this build cannot check it.
absl::Status CheckExternalProcessor(const LoadedConfig& config);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_IDEMPOTENCYD_EXTERNAL_PROCESSOR_SERVICE_H_
