// Sealed replies and checkpoints that move under another key (docs/sealing.md). A store reads what
// is sealed, has a ContentSealer reseal it, and replaces it where it is still as it was read.
#ifndef IDEMPOTENCY_SERVER_STORE_RESEAL_OPERATIONS_H_
#define IDEMPOTENCY_SERVER_STORE_RESEAL_OPERATIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "core/sha256.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/admin_operations.h"
#include "server/store/limits.h"

namespace idempotency::internal {

// What may be sealed of one record, as it is stored, forgotten or not.
struct StoredContent {
  RecordId id;
  RecordKey key;
  // The token of the current grant, or of the last one.
  Uuid token;
  std::vector<Fingerprint> fingerprints;
  // Set exactly when COMPLETED. Without its content the digest is that of what is left.
  std::optional<EncodedReply> reply;
  // The digest of the reply as it was completed, once its content was dropped.
  std::optional<Sha256Digest> completed_digest;
  // Empty: there is none.
  std::string checkpoint;
};

// What takes its place; the other parts stay.
struct ResealedContent {
  std::optional<EncodedReply> reply;
  std::optional<std::string> checkpoint;
};

class ContentSealer {
 public:
  virtual ~ContentSealer() = default;

  // Called without a lock and outside transactions, once for each record that was read.
  virtual ResealedContent Reseal(const StoredContent& stored) = 0;
};

// The records of a namespace, by scope and id.
struct ResealOp {
  std::string name_space;
  std::optional<RecordPlace> after;
  // 1 to limits::kMaxResealStep. A step ends earlier once the replies that it has read reach
  // limits::kMaxResealStepBytes.
  int limit = limits::kMaxResealStep;
  // Seals and writes nothing.
  bool validate_only = false;
  AdminNote note;
  // Set by the store that has the keys: callers leave it out. Outlives the call.
  ContentSealer* sealer = nullptr;
};

// How many records use a key, as they were found.
struct SealingKeyUse {
  // A reply or a checkpoint is sealed under it.
  std::int64_t contents = 0;
  // A fingerprint is an HMAC under it.
  std::int64_t fingerprints = 0;
};

struct ResealStep {
  std::int64_t examined = 0;
  // The records of which every part that was to be resealed is, or would be.
  std::vector<RecordId> resealed;
  // The records of which a part was locked or changed meanwhile: another pass finds them.
  std::int64_t busy = 0;
  // The records of which a part cannot be opened or read: it stays as it is.
  std::vector<RecordId> damaged;
  // Where to continue; nullopt at the end.
  std::optional<RecordPlace> next;

  // The rest is of the store that has the keys.

  // Records with sealed parts, all of which are under the key that seals.
  std::int64_t current = 0;
  // The records with a part that was stored unsealed, which stays.
  std::int64_t unsealed = 0;
  std::uint32_t sealing_key_id = 0;
  // By key id, for the keys of the ring; 0: unsealed, or a key that the ring does not have.
  std::map<std::uint32_t, SealingKeyUse> key_uses;
};

// A record that was read, and what is to take the place of its parts.
struct ContentReplacement {
  StoredContent before;
  ResealedContent after;
};
// Those of `contents` that change.
std::vector<ContentReplacement> ResealAll(ContentSealer& sealer,
                                          std::vector<StoredContent> contents);

// REQUEST_INVALID: the service has no key ring.
absl::Status NothingIsSealed();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_RESEAL_OPERATIONS_H_
