#ifndef IDEMPOTENCY_SERVER_STORE_AUDIT_HMAC_H_
#define IDEMPOTENCY_SERVER_STORE_AUDIT_HMAC_H_

#include <string>
#include <string_view>

#include "core/sha256.h"
#include "grpc_idempotency/record_key.h"

namespace idempotency::internal {

// The audit log's name for a record key: HMAC-SHA256, under the database's audit key, of the
// four parts, each after its length as 4 bytes big-endian. Thread-safe.
Sha256Digest AuditHmac(std::string_view audit_key, const RecordKey& key);

// The same from an entry of the log. Bytes that are missing, as in a damaged entry, are 0.
Sha256Digest AuditHmacFrom(std::string_view stored);

// The two blocks with which HMAC-SHA256 begins its hashes under a key of at most 64 bytes, for
// a database that has SHA-256 but no HMAC: sha256(outer || sha256(inner || message)).
struct HmacPads {
  std::string inner;
  std::string outer;
};
HmacPads HmacPadsOf(std::string_view key);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_AUDIT_HMAC_H_
