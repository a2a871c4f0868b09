#ifndef IDEMPOTENCY_SERVER_PROCESS_KEY_RING_COMMAND_H_
#define IDEMPOTENCY_SERVER_PROCESS_KEY_RING_COMMAND_H_

#include <string>

#include "absl/status/statusor.h"

#include "server/process/command_line.h"

namespace idempotency::internal {

// `idempotencyd keyring`: returns what it did or found, for stdout; never a secret. Errors contain
// what to do; the file is then unchanged.
absl::StatusOr<std::string> RunKeyRingCommand(const KeyRingOptions& options);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_KEY_RING_COMMAND_H_
