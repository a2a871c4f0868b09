#include "examples/payments/server_setup.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:7420", "Listen address; port 0 chooses a free port.");
ABSL_FLAG(std::string, database, "payments.sqlite", "The ledger's SQLite file.");
ABSL_FLAG(std::string, accounts, "alice:100000,bob:300",
          "Accounts to open with their cents, name:cents,...; those that exist stay as they are.");
ABSL_FLAG(absl::Duration, charge_delay, absl::ZeroDuration(),
          "How long a charge waits before the money moves, for demonstrations.");

namespace payments {
namespace {

absl::Status OpenAccounts(Ledger& ledger, absl::string_view flag) {
  for (absl::string_view account : absl::StrSplit(flag, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(account, ':');
    std::int64_t cents = 0;
    if (!absl::SimpleAtoi(parts.second, &cents)) {
      return absl::InvalidArgumentError("--accounts is name:cents,...");
    }
    if (absl::Status opened = ledger.OpenAccount(parts.first, cents); !opened.ok()) return opened;
  }
  return absl::OkStatus();
}

// --help lists the flags of these files too, not of main's alone.
absl::FlagsUsageConfig UsageOfAllFiles() {
  absl::FlagsUsageConfig config;
  config.contains_help_flags = [](absl::string_view file) {
    return absl::StrContains(file, "payments/");
  };
  return config;
}

[[noreturn]] void Exit(const absl::Status& why) {
  spdlog::error("{}", std::string(why.message()));
  std::exit(1);
}

}  // namespace

sigset_t StartProgram(int argc, char** argv) {
  absl::SetProgramUsageMessage("A payments service whose calls cannot happen twice.");
  absl::SetFlagsUsageConfig(UsageOfAllFiles());
  absl::ParseCommandLine(argc, argv);
  // stdout has one line, for scripts; the log goes to stderr.
  spdlog::set_default_logger(spdlog::stderr_color_mt("payments"));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

std::unique_ptr<Ledger> OpenLedgerOrExit() {
  auto ledger = Ledger::Open(absl::GetFlag(FLAGS_database));
  if (!ledger.ok()) Exit(ledger.status());
  const absl::Status opened = OpenAccounts(**ledger, absl::GetFlag(FLAGS_accounts));
  if (!opened.ok()) Exit(opened);
  return *std::move(ledger);
}

}  // namespace payments
