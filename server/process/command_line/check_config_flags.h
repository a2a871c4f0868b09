#ifndef IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_CHECK_CONFIG_FLAGS_H_
#define IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_CHECK_CONFIG_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace idempotency::internal {

// The options of `idempotencyd check-config`, validated.
struct CheckConfigOptions {
  std::string config;
  // Prints the configuration, without digests of tokens.
  bool print = false;
};

// Reads the arguments after the command. INVALID_ARGUMENT names the wrong one and what to write
// instead.
absl::StatusOr<CheckConfigOptions> ParseCheckConfig(absl::Span<const absl::string_view> args);
std::string CheckConfigHelp();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_CHECK_CONFIG_FLAGS_H_
