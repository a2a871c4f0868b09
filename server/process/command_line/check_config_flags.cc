#include "server/process/command_line/check_config_flags.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "command_line/flag_set.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kCheckConfigSummary =
    R"(idempotencyd check-config --config=FILE [flags]

Checks a configuration file, and the files that it names, as `serve` does. Exits 0 if it
is valid, with notes of what is probably not meant; otherwise it prints the faults, with
their lines where they are known, and exits 2. It does not know the flags of `serve`:
proxies of the external processor, for example, are required for some addresses only.

Flags:
)";

// The command line of `check-config` before validation.
struct CheckConfigFlags {
  explicit CheckConfigFlags(CheckConfigOptions* options) {
    set.AddText("config", "FILE", &options->config, "The file to check. Required.");
    set.AddSwitch("print_config", &options->print,
                  "Print the configuration in full, with the digests of tokens left out.");
  }

  FlagSet set;
};

}  // namespace

absl::StatusOr<CheckConfigOptions> ParseCheckConfig(absl::Span<const absl::string_view> args) {
  CheckConfigOptions options;
  CheckConfigFlags flags(&options);
  if (const absl::Status parsed = flags.set.Parse(args); !parsed.ok()) return parsed;
  if (options.config.empty()) {
    return absl::InvalidArgumentError("--config is missing; write --config=FILE");
  }
  return options;
}

std::string CheckConfigHelp() {
  CheckConfigOptions options;
  return absl::StrCat(kCheckConfigSummary, CheckConfigFlags(&options).set.Help());
}

}  // namespace idempotency::internal
