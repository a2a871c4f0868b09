#ifndef IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_SETTINGS_FROM_H_
#define IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_SETTINGS_FROM_H_

#include <memory>

#include "absl/status/statusor.h"

#include "interceptors/ext_proc/service/processor_settings.h"
#include "server/config/config_file.h"

namespace idempotency::internal {

// The settings in the configuration's section external_processor, which it has. INVALID_ARGUMENT
// lists the faults.
absl::StatusOr<std::shared_ptr<const ProcessorSettings>> ProcessorSettingsFrom(
    const LoadedConfig& config);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_SETTINGS_FROM_H_
