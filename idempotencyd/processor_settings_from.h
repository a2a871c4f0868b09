#ifndef IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_SETTINGS_FROM_H_
#define IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_SETTINGS_FROM_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "interceptors/ext_proc/service/exchange_bounds.h"
#include "interceptors/ext_proc/service/processor_settings.h"
#include "server/config/config_file.h"

namespace idempotency::internal {

// The settings in the configuration's section external_processor, which it has. INVALID_ARGUMENT
// lists the faults.
absl::StatusOr<std::shared_ptr<const ProcessorSettings>> ProcessorSettingsFrom(
    const LoadedConfig& config);
// The limits of all exchanges, in the same section.
ExchangeBounds::Limits ExchangeLimitsFrom(const LoadedConfig& config);

// Why one proxy cannot use max_exchanges, and what to do; "": it can. `streams_of_address` are
// those that the listener admits of one address.
std::string StreamsWarning(const ExchangeBounds::Limits& limits, int streams_of_address);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_IDEMPOTENCYD_PROCESSOR_SETTINGS_FROM_H_
