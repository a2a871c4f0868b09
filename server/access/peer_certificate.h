#ifndef IDEMPOTENCY_SERVER_ACCESS_PEER_CERTIFICATE_H_
#define IDEMPOTENCY_SERVER_ACCESS_PEER_CERTIFICATE_H_

#include <openssl/x509.h>

#include "server/access/credentials.h"

namespace idempotency::internal {

// Adds the names of a certificate that a handshake has verified, as gRPC finds them in those of its
// own connections. A name with a control character is left out: no rule can name it. Thread-safe.
void ReadCertificate(const X509& certificate, Credentials& credentials);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_ACCESS_PEER_CERTIFICATE_H_
