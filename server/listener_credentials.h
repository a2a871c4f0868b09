#ifndef IDEMPOTENCY_SERVER_LISTENER_CREDENTIALS_H_
#define IDEMPOTENCY_SERVER_LISTENER_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/command_line.h"

namespace idempotency {

// Certificates are renewed hours before they end; a second costs two small files read.
inline constexpr absl::Duration kCertificateRefresh = absl::Seconds(1);

// What the listener asks of a connection: nothing without files, TLS with a
// certificate and a key, mutual TLS with an authority for clients as well.
//
// The files are looked at every kCertificateRefresh: new connections get what is in
// them then, running ones go on. Replace them in one step, as a rename or a symbolic
// link does: while a certificate stands beside another's key no connection is made.
//
// Reads the files and checks them, since gRPC itself would only fail at every
// handshake. INVALID_ARGUMENT names the flag and what is wrong: a file that
// cannot be read, that holds no PEM, that has expired, a key that is not the
// certificate's.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeListenerCredentials(
    const TlsFiles& files);

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_LISTENER_CREDENTIALS_H_
