#ifndef IDEMPOTENCY_SERVER_LISTENER_CREDENTIALS_H_
#define IDEMPOTENCY_SERVER_LISTENER_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"

#include "server/command_line.h"

namespace idempotency {

// What the listener asks of a connection: nothing without files, TLS with a
// certificate and a key, mutual TLS with an authority for clients as well.
//
// Reads the files and checks them, since gRPC itself would only fail at every
// handshake. INVALID_ARGUMENT names the flag and what is wrong: a file that
// cannot be read, that holds no PEM, that has expired, a key that is not the
// certificate's.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeListenerCredentials(
    const TlsFiles& files);

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_LISTENER_CREDENTIALS_H_
