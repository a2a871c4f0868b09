#ifndef IDEMPOTENCY_SERVER_ACCESS_CREDENTIALS_H_
#define IDEMPOTENCY_SERVER_ACCESS_CREDENTIALS_H_

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"

namespace idempotency::internal {

// The credentials that a caller presents. The names of a certificate are those of one that the
// handshake verified; a token is not verified yet. A value type.
struct Credentials {
  // A certificate was presented, whatever names it has.
  bool certificate = false;
  // The subject alternative names of the certificate.
  std::vector<std::string> uris;
  std::vector<std::string> dns_names;
  // The subject of the certificate as RFC 4514 writes it; empty if it has none.
  std::string subject;
  // The token of `authorization: Bearer TOKEN`.
  std::string token;
  // `authorization` was present but is not one bearer token of at most limits::kMaxTokenBytes.
  bool malformed = false;
  // gRPC's text of the caller's address, for the log.
  std::string peer;
  // The connection comes from this machine, a loopback address or a Unix socket, and nothing in the
  // call shows that it came through a proxy.
  bool local = false;
  // The header, one of kProxyHeaders, for which a call from this machine is not `local`; otherwise
  // empty.
  std::string_view proxy_header;

  // Of a connection from this machine, with the header that proxies add, or "".
  void SetLocal(std::string_view header) {
    local = header.empty();
    proxy_header = header;
  }
};

// The headers that proxies add: the caller is on another machine, whatever the connection is. In
// lower case.
inline constexpr std::string_view kProxyHeaders[] = {"forwarded", "x-forwarded-for", "x-real-ip",
                                                     "via"};

// The credentials of a call or of a stream.
Credentials CredentialsOf(const grpc::ServerContextBase& context);

// Adds the value of a call's one `authorization` header: a bearer token, or what makes the
// credentials malformed.
void ReadAuthorization(absl::string_view value, Credentials& credentials);

// True for gRPC's text of a peer on this machine, such as "ipv4:127.0.0.1:4000" or
// "unix:/run/x".
bool IsLocalPeer(absl::string_view peer);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_ACCESS_CREDENTIALS_H_
