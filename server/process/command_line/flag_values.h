#ifndef IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_FLAG_VALUES_H_
#define IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_FLAG_VALUES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/observability/log.h"
#include "server/service/store_address.h"

namespace idempotency::internal {

// The values of flags that several commands have. INVALID_ARGUMENT names the flag.

absl::StatusOr<StoreAddress> ParseStore(absl::string_view text);
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view text);

// Names the flag in an error about its value.
absl::Status AboutFlag(absl::string_view flag, const absl::Status& status);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_FLAG_VALUES_H_
