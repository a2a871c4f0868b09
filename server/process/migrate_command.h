#ifndef IDEMPOTENCY_SERVER_PROCESS_MIGRATE_COMMAND_H_
#define IDEMPOTENCY_SERVER_PROCESS_MIGRATE_COMMAND_H_

#include <string>

#include "absl/status/statusor.h"

#include "server/process/command_line.h"

namespace idempotency::internal {

// `idempotencyd migrate`: returns a report of its changes, for stdout. Errors
// contain what to do; the schema is then unchanged, or at the last version that
// was reached.
absl::StatusOr<std::string> Migrate(const MigrateOptions& options);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_MIGRATE_COMMAND_H_
