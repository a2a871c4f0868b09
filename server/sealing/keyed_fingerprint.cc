#include "server/sealing/keyed_fingerprint.h"

#include "core/length_prefix.h"
#include "core/sha256.h"
#include "server/sealing/record_identity.h"

namespace idempotency::internal {

HmacKey KeyOfNamespace(const SealingKey& key, std::string_view name_space) {
  return key.fingerprints().Expand(name_space);
}

FingerprintKey::FingerprintKey(const SealingKey& key, const HmacKey& of_namespace,
                               const RecordKey& record, const RecordId& id)
    : key_id_(key.id()),
      of_namespace_(of_namespace),
      identity_(RecordIdentity("fingerprint", record, id)) {}

Fingerprint FingerprintKey::Apply(const Fingerprint& fingerprint) const {
  if (fingerprint.key_id != 0) return fingerprint;
  std::string version;
  AppendBigEndian32(fingerprint.version, version);
  const Sha256Digest digest = of_namespace_.Sign({identity_, version, fingerprint.digest});
  return {fingerprint.version, std::string(digest.begin(), digest.end()), key_id_};
}

}  // namespace idempotency::internal
