#ifndef IDEMPOTENCY_CTL_CONNECTION_FLAGS_H_
#define IDEMPOTENCY_CTL_CONNECTION_FLAGS_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "command_line/flag_set.h"
#include "ctl/service.h"

namespace idempotency::internal {

// The flags for the idempotencyd to call, and for the identity of the caller. Their defaults are
// the environment variables IDEMPOTENCYCTL_ADDRESS, _TLS_CA, _TLS_CERT, _TLS_KEY, _TLS_NAME and
// _TOKEN_FILE. No flag contains a secret: other users of the machine can read command lines.
// Thread-compatible.
class ConnectionFlags {
 public:
  // Reads the environment.
  ConnectionFlags();

  void AddTo(FlagSet& flags);

  // Makes a channel, which connects with the first call. INVALID_ARGUMENT: a file that cannot be
  // read, or a connection that others can read.
  absl::StatusOr<std::unique_ptr<Service>> Connect() const;

 private:
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials() const;
  bool has_tls() const;
  // A server closes the connection if it uses TLS and the caller does not, and if it refuses the
  // caller's certificate.
  std::string AdviceIfClosed() const;

  std::string address_ = "127.0.0.1:7411";
  std::string ca_;
  std::string certificate_;
  std::string key_;
  std::string certificate_name_;
  std::string token_file_;
  bool tls_ = false;
  bool allow_plaintext_ = false;
  absl::Duration timeout_ = absl::Seconds(10);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_CONNECTION_FLAGS_H_
