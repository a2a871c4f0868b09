#include "server/process/command_line.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "server/observability/version.h"
#include "server/process/command_line/serve_flags.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kSummary =
    R"(idempotencyd makes operations run once: for every idempotency key it records
whether the operation is running or has completed, and its reply. Callers reserve
a key over gRPC (idempotency.v1.IdempotencyService), run the operation, and
complete it; every later call with that key gets the same reply.

Usage:
  idempotencyd serve --store=ADDRESS [flags]    answer calls until SIGTERM
  idempotencyd serve-testing [flags]            serve the tests of your service
  idempotencyd migrate --store=ADDRESS [flags]  migrate a Postgres schema
  idempotencyd check-config --config=FILE       check a configuration file
  idempotencyd health [flags]                   check whether a server is SERVING
  idempotencyd --help | --version

`idempotencyd COMMAND --help` lists a command's flags.

Examples:
  # One machine: SQLite in a file, on the default port.
  idempotencyd serve --store=sqlite:/var/lib/idempotency/records.db

  # Production: any number of replicas over one Postgres.
  export PGPASSWORD=...
  idempotencyd migrate --store=postgresql://idempotency@db/idempotency
  idempotencyd serve --store=postgresql://idempotency@db/idempotency \
      --listen=0.0.0.0:7411 --metrics=0.0.0.0:9464 --config=idempotencyd.textproto \
      --tls_cert=server.pem --tls_key=server.key --tls_client_ca=clients.pem

Exit status: 0 success, or stopped by SIGTERM or SIGINT; 2 failure, with the
reason on stderr; 1 `health`: the server is not SERVING.
)";

using Args = absl::Span<const absl::string_view>;

// The options of one command, or its help.
template <typename Options>
absl::StatusOr<CommandLine> Parse(Args args, absl::StatusOr<Options> (*parse)(Args),
                                  std::string (*help)()) {
  if (std::find(args.begin(), args.end(), "--help") != args.end()) return ShowText{help()};
  absl::StatusOr<Options> options = parse(args);
  if (!options.ok()) return options.status();
  return *std::move(options);
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const absl::string_view> args) {
  if (args.empty()) {
    return absl::InvalidArgumentError(
        "no command is given; write `idempotencyd serve --store=ADDRESS`");
  }
  const absl::string_view command = args.front();
  const Args rest = args.subspan(1);
  if (command == "serve") return Parse(rest, &ParseServe, &ServeHelp);
  if (command == "serve-testing") return Parse(rest, &ParseServeTesting, &ServeTestingHelp);
  if (command == "migrate") return Parse(rest, &ParseMigrate, &MigrateHelp);
  if (command == "check-config") return Parse(rest, &ParseCheckConfig, &CheckConfigHelp);
  if (command == "health") return Parse(rest, &ParseHealth, &HealthHelp);
  if (command == "--help") return ShowText{std::string(kSummary)};
  if (command == "--version") return ShowText{absl::StrCat("idempotencyd ", Version(), "\n")};
  return absl::InvalidArgumentError(
      absl::StrCat("'", command,
                   "' is not a command; the commands are serve, serve-testing, migrate, "
                   "check-config and health"));
}

}  // namespace idempotency::internal
