#ifndef IDEMPOTENCY_SERVER_SEALING_KEYED_FINGERPRINT_H_
#define IDEMPOTENCY_SERVER_SEALING_KEYED_FINGERPRINT_H_

#include <string>

#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "server/sealing/key_ring.h"

namespace idempotency::internal {

// A small request can be guessed: a reader of its SHA-256 tries all amounts of money. So the
// store keeps an HMAC of the digest, under a key of its namespace. It is over the record's identity
// too: that of another record, copied into this one, is no request's.
//
// For one record, since all its fingerprints have that part in common. Thread-compatible.
class FingerprintKey {
 public:
  // `of_namespace` is the key of the record's namespace (KeyOfNamespace()), and outlives this.
  FingerprintKey(const SealingKey& key, const HmacKey& of_namespace, const RecordKey& record,
                 const RecordId& id);

  // One that is under a key already stays as it is: a caller read it with the record.
  Fingerprint Apply(const Fingerprint& fingerprint) const;

 private:
  const std::uint32_t key_id_;
  const HmacKey& of_namespace_;
  const std::string identity_;
};

// The key of the fingerprints of a namespace.
HmacKey KeyOfNamespace(const SealingKey& key, std::string_view name_space);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_KEYED_FINGERPRINT_H_
