#ifndef IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_FLAGS_H_
#define IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "server/process/command_line/serve_options.h"

namespace idempotency::internal {

// Reads the arguments after the command. INVALID_ARGUMENT names the wrong one and what to write
// instead.
absl::StatusOr<ServeOptions> ParseServe(absl::Span<const absl::string_view> args);
std::string ServeHelp();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_SERVE_FLAGS_H_
