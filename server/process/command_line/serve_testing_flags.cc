#include "server/process/command_line/serve_testing_flags.h"

#include "absl/strings/str_cat.h"

#include "command_line/flag_set.h"
#include "server/process/command_line/flag_values.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kServeTestingSummary =
    R"(idempotencyd serve-testing [flags]

Serves tests, on 127.0.0.1 only: records are in memory and end with the process. The
metadata `idempotency-test-world` of a call names its world, which has its own records
and its own clock; idempotency.testing.v1.TestingService moves that clock and empties the
world. When ready, it prints one line on stdout with its address. It ends on SIGTERM,
and with the process that started it.

Flags:
)";

// The command line of `serve-testing` before validation.
struct ServeTestingFlags {
  explicit ServeTestingFlags(ServeTestingOptions* options) {
    set.AddInt("port", &port, 0, 65'535, "The port on 127.0.0.1; 0 chooses a free one.");
    set.AddSwitch("exit_with_parent", &options->exit_with_parent,
                  "End when the process ends that started this one. On by default;\n"
                  "--exit_with_parent=false keeps it running.");
    set.AddSwitch("exit_with_stdin", &options->exit_with_stdin,
                  "End when stdin ends: for a test that holds the other end of a pipe.");
    set.AddText("log_level", "LEVEL", &log_level,
                "Lowest severity that is logged: debug, info, warn or error.");
  }

  int port = 0;
  std::string log_level = "warn";
  FlagSet set;
};

}  // namespace

absl::StatusOr<ServeTestingOptions> ParseServeTesting(absl::Span<const absl::string_view> args) {
  ServeTestingOptions options;
  ServeTestingFlags flags(&options);
  if (const absl::Status parsed = flags.set.Parse(args); !parsed.ok()) return parsed;
  options.port = static_cast<std::uint16_t>(flags.port);
  const absl::StatusOr<LogLevel> level = ParseLogLevel(flags.log_level);
  if (!level.ok()) return level.status();
  options.log_level = *level;
  return options;
}

std::string ServeTestingHelp() {
  ServeTestingOptions options;
  return absl::StrCat(kServeTestingSummary, ServeTestingFlags(&options).set.Help());
}

}  // namespace idempotency::internal
