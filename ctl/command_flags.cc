#include "ctl/command_flags.h"

namespace idempotency::internal {

CommandFlags::CommandFlags(Command& command) : command_(command) {
  command.AddFlags(set_);
  if (command.connects()) connection_.AddTo(set_);
}

absl::StatusOr<std::unique_ptr<Service>> CommandFlags::Connect() const {
  if (!command_.connects()) return std::unique_ptr<Service>();
  return connection_.Connect();
}

}  // namespace idempotency::internal
