#ifndef GRPC_IDEMPOTENCY_CLIENT_CHANNEL_CREDENTIALS_H_
#define GRPC_IDEMPOTENCY_CLIENT_CHANNEL_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace idempotency {

// The files with which a process authenticates idempotencyd and itself. Certificate managers and
// orchestrators replace such files while the process runs.
struct IdempotencydCredentialFiles {
  // PEM of the authorities of the daemon's certificate. Empty: the authorities that gRPC trusts by
  // default.
  std::string ca;
  // PEM of the client certificate with its chain, and of its private key: for mutual TLS. Both or
  // neither.
  std::string certificate;
  std::string key;
  // A bearer token, static or a JSON Web Token: the file's content without white space around it.
  // Empty: none.
  std::string token;
};

// Credentials for a channel to idempotencyd: TLS, with the client certificate and the token of
// the files.
//
//   auto credentials = idempotency::IdempotencydChannelCredentials(
//       {"/etc/idempotency/ca.pem", "/etc/idempotency/client.pem", "/etc/idempotency/client.key"});
//   if (!credentials.ok()) return credentials.status();
//   auto channel = grpc::CreateCustomChannel(target, *credentials,
//                                            idempotency::IdempotencydChannelArguments());
//
// The files of certificates are read again within two seconds of a change and count for new
// connections. The file of the token is read again at most once per second, for calls and for
// sessions; while it cannot be read, the last token is sent. A session's token counts until
// idempotencyd makes the client open another one, which it does before a JSON Web Token expires.
//
// INVALID_ARGUMENT names the file that cannot be read, or the option that is missing. Thread-safe.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> IdempotencydChannelCredentials(
    const IdempotencydCredentialFiles& files);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_CHANNEL_CREDENTIALS_H_
