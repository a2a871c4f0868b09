#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_SCOPE_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_SCOPE_H_

#include <grpcpp/server_context.h>

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace idempotency {

// Returns the owner of the call's key: a stable identity of the caller, determined after
// authentication. An error becomes the call's status. Called on gRPC's threads: it must be
// thread-safe and must not block.
using ScopeFunction = std::function<absl::StatusOr<std::string>(const grpc::ServerContextBase&)>;

// The peer's identity from mutual TLS: the certificate's alternative names, or its common name
// if there are none. UNAUTHENTICATED for a peer without an identity, so also under
// LocalServerCredentials, which do not distinguish peers: use SharedScope there. gRPC does not
// report whether the certificate was verified: the server's credentials must be of a kind that
// verifies it (..._AND_VERIFY).
ScopeFunction PeerIdentityScope();
// The value of a metadata entry that an authenticating proxy sets (and removes from external
// requests). UNAUTHENTICATED when absent or repeated.
ScopeFunction MetadataScope(std::string metadata_key);
// One scope for all callers: for a service with a single caller.
ScopeFunction SharedScope(std::string scope);
// SHA-256 of the `authorization` entry. Only for static credentials: a refreshed token would be
// a new scope, and a retry would be a second execution.
ScopeFunction AuthorizationScope();

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_SCOPE_H_
