#ifndef IDEMPOTENCY_SERVER_SEALING_SEALER_H_
#define IDEMPOTENCY_SERVER_SEALING_SEALER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/sealing/key_ring.h"
#include "server/store/admin_operations.h"
#include "server/store/record_operations.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// Seals the operations of one call of a store, and opens its answers, with one ring.
//
// A value that cannot be opened is DATA_LOSS / RECORD_DAMAGED: damaged, of another record, sealed
// under a key that the ring does not have, or not sealed where that is not accepted.
//
// Not thread-safe, as it keeps what it derived.
class Sealer {
 public:
  // While no key of the ring seals yet, operations stay as they are.
  Sealer(std::shared_ptr<const KeyRing> ring, absl::Time now, bool accept_unsealed);

  // With fingerprints under the key that seals.
  ReserveOp Seal(const ReserveOp& op) const;
  // The same with the reply sealed. DATA_LOSS if it is no reply.
  absl::StatusOr<CompleteOp> Seal(const CompleteOp& op) const;
  // The same, for the attempt of ResolveOp::token.
  absl::StatusOr<ResolveOp> Seal(const ResolveOp& op) const;
  // The same with the checkpoint sealed.
  ExtendOp Seal(const ExtendOp& op) const;

  // Whether rows may be under another key than the one that seals, or under none.
  bool HasOthers() const;
  // The fingerprints of the request under those keys. At most limits::kMaxFingerprints for each.
  std::vector<Fingerprint> OtherFingerprints(const ReserveOp& op) const;
  // The digests of the reply under those keys.
  std::vector<Sha256Digest> OtherDigests(const CompleteOp& op) const;
  // The digests that the reply may have in a record of this token, under any key.
  std::vector<Sha256Digest> AllDigests(const ResolveOp& op, const Uuid& token) const;

  absl::StatusOr<Verdict> Open(const ReserveOp& op, Verdict verdict) const;
  absl::StatusOr<Record> Open(Record record) const;

  // As RecordStore::MatchRequest(), of a record as it is stored.
  FingerprintMatch Match(const Record& record, const ReserveOp& op) const;
  // Why a record's fingerprints cannot be compared with any request: RECORD_DAMAGED, or OK if they
  // can.
  absl::Status CheckComparable(const Record& record) const;

 private:
  // Adds the fingerprints of `op` under `key`.
  void AppendUnder(const SealingKey& key, const ReserveOp& op, std::vector<Fingerprint>& out) const;
  absl::StatusOr<EncodedReply> OpenReply(const RecordKey& key, const RecordId& id,
                                         const Uuid& token, EncodedReply stored) const;
  absl::StatusOr<std::string> OpenCheckpoint(const ReserveOp& op, std::string stored) const;

  const std::shared_ptr<const KeyRing> ring_;
  // Nullptr: none yet.
  const SealingKey* const sealing_;
  const bool accept_unsealed_;

  // The key of a namespace's fingerprints.
  struct NamespaceKey {
    const SealingKey* from;
    std::string name_space;
    HmacKey key;
  };
  // That of the last operation: the operations of a call share few namespaces, and deriving it
  // costs as much as using it.
  mutable std::optional<NamespaceKey> namespace_key_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_SEALER_H_
