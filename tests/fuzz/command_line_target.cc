// The daemon's arguments, one in each line.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "core/absl_view.h"
#include "server/process/command_line.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

constexpr std::size_t kMaxArguments = 32;

using Arguments = std::vector<absl::string_view>;

void RequireGood(const ServeOptions& options) {
  Require(!options.store.location.empty(), "serve has a store");
  Require(NetworkAddress::Parse(options.listen.ToString()).ok(), "serve listens somewhere");
  Require(!options.metrics || options.metrics->unix_path.empty(), "metrics have a port");
  Require(ValidateServiceOptions(options).ok(), "every number has its bounds");
  Require(
      options.drain_timeout >= absl::ZeroDuration() && options.drain_timeout <= absl::Minutes(10),
      "draining has its bounds");
  Require(options.tls.certificate.empty() == options.tls.key.empty(), "a certificate has a key");
  Require(!options.sealing.accept_unsealed || !options.sealing.key_ring.empty(),
          "rows that are not sealed are an exception only beside sealed ones");
  Require(options.listen.IsLocal() || !options.config.empty(), "others need rules");
  Require(options.listen.IsLocal() || options.allow_plaintext || !options.tls.key.empty(),
          "others need TLS");
  Require(!options.otlp_endpoint.empty() || (options.otlp_ca.empty() && !options.otlp_plaintext),
          "a collector has an address");
  Require(options.otlp_ca.empty() || !options.otlp_plaintext, "spans have TLS or none");
  Require(!options.read_only || options.store.kind == StoreAddress::Kind::kPostgres,
          "a SQLite file has one process");
}

void RequireGood(const MigrateOptions& options) {
  Require(!options.store.location.empty(), "migrate has a store");
  Require(!options.to || *options.to >= 0, "a version is a number");
  Require(!options.status || !options.to, "asking changes nothing");
}

void RequireGood(const CheckConfigOptions& options) {
  Require(!options.config.empty(), "check-config has a file");
}

void RequireGood(const HealthOptions& options) {
  Require(!options.address || NetworkAddress::Parse(options.address->ToString()).ok(),
          "health sends a request");
  Require(options.timeout > absl::ZeroDuration(), "health waits for an answer");
}

// Every value is good.
void RequireGood(const ServeTestingOptions&) {}

void RequireGood(const ShowText& show) { Require(!show.text.empty(), "there is a text"); }

// Has no value.
bool IsSwitch(absl::string_view argument) {
  return argument == "--status" || argument == "--help" || argument == "--yes" ||
         argument == "--tls" || argument == "--allow_plaintext" ||
         argument == "--accept_unsealed" || argument == "--accept_empty_store" ||
         argument == "--core_dumps" || argument == "--otlp_plaintext" ||
         argument == "--read_only" || argument == "--print_config";
}

// The same with every --name value as --name=value.
std::vector<std::string> Joined(const Arguments& arguments) {
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool takes_next = i > 0 && absl::StartsWith(arguments[i], "--") &&
                            !absl::StrContains(arguments[i], '=') && !IsSwitch(arguments[i]) &&
                            i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--");
    if (takes_next) {
      joined.push_back(absl::StrCat(arguments[i], "=", arguments[i + 1]));
      ++i;
    } else {
      joined.emplace_back(arguments[i]);
    }
  }
  return joined;
}

}  // namespace

void CommandLineArguments(std::string_view bytes) {
  Input input(bytes);
  Arguments arguments;
  while (!input.empty() && arguments.size() < kMaxArguments) {
    arguments.push_back(AbslView(input.Line()));
  }
  const absl::StatusOr<CommandLine> line = ParseCommandLine(arguments);
  if (!line.ok()) {
    Require(line.status().code() == absl::StatusCode::kInvalidArgument &&
                !line.status().message().empty(),
            "a wrong argument is explained");
    return;
  }
  std::visit([](const auto& options) { RequireGood(options); }, *line);

  const std::vector<std::string> joined = Joined(arguments);
  const absl::StatusOr<CommandLine> again =
      ParseCommandLine(Arguments(joined.begin(), joined.end()));
  Require(again.ok() && again->index() == line->index(), "--name value is --name=value");
}

}  // namespace idempotency::internal::fuzz
