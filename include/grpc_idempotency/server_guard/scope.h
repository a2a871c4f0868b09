#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_SCOPE_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_SCOPE_H_

#include <grpcpp/server_context.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace idempotency {

// Returns the owner of the call's key: a stable identity of the caller, determined after
// authentication. Everything that decides for whom a call acts belongs in the scope or in the
// request: behind a peer that serves several users, a scope without the user gives one user's
// reply to another one with the same key and request. An error becomes the call's status. Called on
// gRPC's threads: it must be thread-safe and must not block.
using ScopeFunction = std::function<absl::StatusOr<std::string>(const grpc::ServerContextBase&)>;

// The peer's identity from mutual TLS, for a peer that acts for itself alone: all alternative
// names of the certificate together, or its common name if there are none. A caller whose
// certificate has another set of names is in another scope, where a retry is a second execution:
// use PeerUriScope if each replica's certificate has its host's name beside the service's, or if
// names are added at a renewal. A name is compared without its kind: use PeerUriScope too if the
// authority does not check every name of a certificate, the common name included, since one with
// the common name "spiffe://bank/billing" has the scope of that URI. UNAUTHENTICATED for a peer
// without an identity, so also under LocalServerCredentials, which do not distinguish peers: use
// SharedScope there. gRPC does not report whether the certificate was verified: the server's
// credentials must be of a kind that verifies it (..._AND_VERIFY).
ScopeFunction PeerIdentityScope();
// The same with one name: the certificate's first alternative name of type URI, such as a SPIFFE
// ID, whatever its other names are; as `scope { peer: URI }` of the external processor. A
// certificate without a URI is UNAUTHENTICATED too.
ScopeFunction PeerUriScope();
// The value of a metadata entry that an authenticating proxy sets (and removes from external
// requests). UNAUTHENTICATED when absent or repeated.
ScopeFunction MetadataScope(std::string metadata_key);
// One scope for all callers: for a service with a single caller.
ScopeFunction SharedScope(std::string scope);
// SHA-256 of the `authorization` entry. Only for static credentials: a refreshed token would be
// a new scope, and a retry would be a second execution.
ScopeFunction AuthorizationScope();
// All of these scopes together, in this order; one at least. For a caller that acts for others,
// such as a backend for a frontend: its certificate and the user for whom it calls.
//
//   CombinedScope({PeerUriScope(), MetadataScope("x-user")})
//
// Callers have the same scope only if they have the same one in every part. A part that refuses
// the call refuses it here with the same status. A scope that would be too long is replaced by its
// digest. One part alone is that scope itself, unless it has a ',' or a '\' or begins with
// "sha256:". ServerGuard::Create refuses an empty list, and an empty function in it.
ScopeFunction CombinedScope(std::vector<ScopeFunction> parts);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_SCOPE_H_
