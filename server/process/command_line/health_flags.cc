#include "server/process/command_line/health_flags.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "command_line/flag_set.h"
#include "server/process/command_line/flag_values.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kHealthSummary =
    R"(idempotencyd health [flags]

Calls grpc.health.v1.Health of a gRPC server, for container health checks. Prints
SERVING and exits 0 if that is the answer; exits 1 for another answer or none.

Without --address it calls the one idempotencyd that serves on this machine or in
this container, at the address and with the TLS flags of that process's command
line: with TLS it does not verify the certificate; with mutual TLS it presents the
server's own certificate. --tls_client_ca must have its authority, and an extended
key usage must include clientAuth. Otherwise set --tls_cert and --tls_key.

Flags:
)";

// The command line of `health` before validation.
struct HealthFlags {
  explicit HealthFlags(HealthOptions* options) {
    set.AddText("address", "ADDRESS", &address,
                "The server: HOST:PORT, [IPV6]:PORT or unix:PATH. Empty for the idempotencyd on\n"
                "this machine.");
    set.AddSwitch(
        "tls", &options->tls,
        "The server at --address uses TLS. Without --tls_ca any certificate is accepted.");
    set.AddName("tls_ca", "FILE", &options->tls_ca,
                "PEM file of the authorities that must have issued the server's certificate.");
    set.AddText("tls_name", "NAME", &options->tls_name,
                "The name that the server's certificate must have. Empty for that of --address.");
    set.AddName("tls_cert", "FILE", &options->tls_certificate,
                "PEM file of the client certificate for a server with mutual TLS.");
    set.AddName("tls_key", "FILE", &options->tls_key,
                "PEM file of that certificate's private key.");
    set.AddText("service", "NAME", &options->service,
                "The service to check. Empty for the server as a whole.");
    set.AddDuration("timeout", &options->timeout, absl::Milliseconds(10), absl::Minutes(1),
                    "Time limit for the answer.");
    set.AddDuration("wait", &options->wait, absl::ZeroDuration(), absl::Minutes(10),
                    "Time to try again until the answer is SERVING, for scripts that start a\n"
                    "server; 0 tries once.");
  }

  std::string address;
  FlagSet set;
};

}  // namespace

absl::StatusOr<HealthOptions> ParseHealth(absl::Span<const absl::string_view> args) {
  HealthOptions options;
  HealthFlags flags(&options);
  if (const absl::Status parsed = flags.set.Parse(args); !parsed.ok()) return parsed;
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError(
        "--tls_cert and --tls_key must be set together; set both or neither");
  }
  if (!options.tls_name.empty() && options.tls_ca.empty()) {
    return absl::InvalidArgumentError(
        "--tls_name needs --tls_ca: without it no certificate is verified");
  }
  if (flags.address.empty()) return options;
  absl::StatusOr<NetworkAddress> address = NetworkAddress::Parse(flags.address);
  if (!address.ok()) return AboutFlag("address", address.status());
  options.address = *std::move(address);
  return options;
}

std::string HealthHelp() {
  HealthOptions options;
  return absl::StrCat(kHealthSummary, HealthFlags(&options).set.Help());
}

}  // namespace idempotency::internal
