#ifndef IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_CHECKS_H_
#define IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_CHECKS_H_

#include "absl/status/status.h"

#include "server/process/command_line/serve_options.h"
#include "server/service/store_address.h"

namespace idempotency::internal {

// The checks across flags of `serve`. INVALID_ARGUMENT names the flags that do not go together.

absl::Status CheckServe(const ServeOptions& options);

// Checks the statements that --statements chooses.
absl::Status CheckStatements(const ServeOptions& options);
// Checks --clock_margin, if it is given.
absl::Status CheckClockMargin(const ServeOptions& options);
// Checks the address in --maintenance_store.
absl::Status CheckMaintenance(const StoreAddress& maintenance, const ServeOptions& options);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_CHECKS_H_
