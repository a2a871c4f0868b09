#ifndef IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_H_
#define IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_H_

#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "server/process/command_line/check_config_flags.h"
#include "server/process/command_line/health_flags.h"
#include "server/process/command_line/migrate_flags.h"
#include "server/process/command_line/serve_options.h"
#include "server/process/command_line/serve_testing_flags.h"

namespace idempotency::internal {

// Text to print on stdout: --help, --version.
struct ShowText {
  std::string text;
};

using CommandLine = std::variant<ServeOptions, ServeTestingOptions, MigrateOptions,
                                 CheckConfigOptions, HealthOptions, ShowText>;

// Reads the arguments after the program's name. Opens nothing: files and stores
// are checked by the code that uses them. INVALID_ARGUMENT names the wrong
// argument and what to write instead.
absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const absl::string_view> args);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_H_
