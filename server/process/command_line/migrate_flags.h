#ifndef IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_MIGRATE_FLAGS_H_
#define IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_MIGRATE_FLAGS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "server/service/store_address.h"

namespace idempotency::internal {

// The options of `idempotencyd migrate`, validated.
struct MigrateOptions {
  StoreAddress store;
  // The target version; nullopt: the newest. One lower than the schema's is a
  // downgrade.
  std::optional<int> to;
  // Only reports the state of the schema.
  bool status = false;
  // Confirms a downgrade.
  bool yes = false;
  // A role that does not own the schema and gets the privileges to serve it;
  // may be empty.
  std::string grant_to;
  // Makes the roles of the schema.
  bool create_roles = false;
  // Distributes the records over the nodes of Citus.
  bool distribute = false;
  // The prefix of the roles' names; empty: the schema's name.
  std::string role_prefix;
};

// Reads the arguments after the command. INVALID_ARGUMENT names the wrong one and what to write
// instead.
absl::StatusOr<MigrateOptions> ParseMigrate(absl::Span<const absl::string_view> args);
std::string MigrateHelp();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_MIGRATE_FLAGS_H_
