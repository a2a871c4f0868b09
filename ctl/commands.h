#ifndef IDEMPOTENCY_CTL_COMMANDS_H_
#define IDEMPOTENCY_CTL_COMMANDS_H_

#include <memory>
#include <vector>

#include "ctl/command.h"

namespace idempotency::internal {

// Each in the file of its name: get_command.cc and so on.
std::unique_ptr<Command> NewAuditCommand();
std::unique_ptr<Command> NewEnvoyConfigCommand();
std::unique_ptr<Command> NewExplainCommand();
std::unique_ptr<Command> NewGetCommand();
std::unique_ptr<Command> NewKeyRingCheckCommand();
std::unique_ptr<Command> NewKeyRingGenerateCommand();
std::unique_ptr<Command> NewKeyRingResealCommand();
std::unique_ptr<Command> NewListCommand();
std::unique_ptr<Command> NewPurgeCommand();
std::unique_ptr<Command> NewResolveCommand();
std::unique_ptr<Command> NewStatsCommand();
std::unique_ptr<Command> NewTreeCommand();
std::unique_ptr<Command> NewWatchCommand();

// All of them, in the order of the help.
std::vector<std::unique_ptr<Command>> NewCommands();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_COMMANDS_H_
