#ifndef IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_HEALTH_FLAGS_H_
#define IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_HEALTH_FLAGS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "server/process/network_address.h"

namespace idempotency::internal {

// The options of `idempotencyd health`, validated.
struct HealthOptions {
  // nullopt: the idempotencyd on this machine, at the address of its command
  // line.
  std::optional<NetworkAddress> address;
  // The server uses TLS; also if one of these files is set.
  bool tls = false;
  // Empty: the server's certificate is not verified, for a server of this machine.
  std::string tls_ca;
  // The name that the certificate must have; empty: the host of the address.
  std::string tls_name;
  // The client's own, for mutual TLS.
  std::string tls_certificate;
  std::string tls_key;
  // Empty: the server as a whole.
  std::string service;
  absl::Duration timeout = absl::Seconds(2);
  // How long to try again until the server is SERVING. Zero: one try.
  absl::Duration wait = absl::ZeroDuration();
};

// Reads the arguments after the command. INVALID_ARGUMENT names the wrong one and what to write
// instead.
absl::StatusOr<HealthOptions> ParseHealth(absl::Span<const absl::string_view> args);
std::string HealthHelp();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_COMMAND_LINE_HEALTH_FLAGS_H_
