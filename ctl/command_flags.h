#ifndef IDEMPOTENCY_CTL_COMMAND_FLAGS_H_
#define IDEMPOTENCY_CTL_COMMAND_FLAGS_H_

#include <memory>

#include "command_line/flag_set.h"
#include "ctl/commands.h"
#include "ctl/connection_flags.h"

namespace idempotency::internal {

// All flags of a command: its own, and those of the connection if it needs one.
// Thread-compatible.
class CommandFlags {
 public:
  // `command` outlives it.
  explicit CommandFlags(Command& command);

  FlagSet& set() { return set_; }
  // Null for a command that does not connect.
  absl::StatusOr<std::unique_ptr<Service>> Connect() const;

 private:
  const Command& command_;
  ConnectionFlags connection_;
  FlagSet set_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_COMMAND_FLAGS_H_
