// The operations of callers on records, and their results.
#ifndef IDEMPOTENCY_SERVER_STORE_RECORD_OPERATIONS_H_
#define IDEMPOTENCY_SERVER_STORE_RECORD_OPERATIONS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/sha256.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/record.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// Operations. `id` is always RecordIdFor(key): callers compute it once. Fields are
// already validated (grpc_idempotency/limits.h); durations are whole microseconds.

// The window of a key that is expired at any age if it is unknown. Not zero: the store's clock may
// be behind the key's time by up to kMaxKeyAhead, and the key's age is negative then.
inline constexpr absl::Duration kNoWindow = -limits::kMaxKeyAhead;

struct ReserveOp {
  RecordKey key;
  RecordId id;
  std::vector<Fingerprint> fingerprints;
  // Compared like `fingerprints` and never stored: the same request under keys that no longer
  // seal, and under none (server/sealing).
  std::vector<Fingerprint> compared_fingerprints;
  std::optional<Uuid> request_token;
  absl::Duration lease = limits::kDefaultLease;
  absl::Duration retention = limits::kDefaultRetention;
  // How old an unknown UUIDv7 key may be; or kNoWindow.
  absl::Duration window = limits::kDefaultWindow;
  LeaseExpiry on_lease_expiry = LeaseExpiry::kRequireRecovery;
  bool recover = false;
  // How long the reply's content is kept, from the first reservation; nullopt:
  // as long as the record. At most `retention`.
  std::optional<absl::Duration> reply_retention;
  // How long the key is refused after the record is forgotten.
  absl::Duration tombstone = absl::ZeroDuration();
  std::optional<RecordKey> parent;
  std::map<std::string, std::string> labels;
  // The grant of a new record need not be durable when it is answered (docs/ledger.md): only a
  // store on Postgres makes use of it.
  bool relaxed = false;
  // A limit of the namespace is reached: a key without a record is refused, and every other one is
  // answered as ever.
  bool only_existing = false;
};

struct CompleteOp {
  RecordKey key;
  RecordId id;
  Uuid token;
  EncodedReply reply;
  // Digests of the same reply under keys that no longer seal, and under none
  // (server/sealing): a completed record that has one of them has this reply.
  std::vector<Sha256Digest> other_digests = {};
};

struct ReleaseOp {
  RecordKey key;
  RecordId id;
  Uuid token;
  // Empty is stored as kNoReleaseReason.
  std::string reason;
  // The caller cannot rule out an effect: the record becomes UNKNOWN.
  bool outcome_unknown = false;
  // How long the record is not granted again, up to its end. Without effect if
  // `outcome_unknown`.
  absl::Duration pause = absl::ZeroDuration();
};

// A record has a reason exactly if its last ended attempt was released: it
// distinguishes a release from an expired lease.
inline constexpr std::string_view kNoReleaseReason = "no reason given";

struct ExtendOp {
  RecordKey key;
  RecordId id;
  Uuid token;
  absl::Duration lease = limits::kDefaultLease;
  // Replaces the stored checkpoint.
  std::optional<std::string> checkpoint;
};

struct GetOp {
  RecordId id;
  // When set, a record of another key under this id is an error.
  std::optional<RecordKey> key;
  // The read answers a caller of a guarded method, and so is as durable as a
  // completion: where commits wait for a standby, the read waits for it too, and is
  // answered STORE_UNAVAILABLE if the standby does not confirm. Otherwise it
  // returns the store's current data, which a failover may revert: for operators,
  // and to detect changes.
  bool confirmed = false;
  // Of a read without a key: whose share of the queue it takes. No namespace's name.
  std::string owner = {};
};

// Results.

struct Completion {
  absl::Time completed_at;
  absl::Time expires_at;
  // The lease had expired, but no attempt had taken over.
  bool lease_overrun = false;
  // This completion had been stored before.
  bool repeated = false;
};

struct Extension {
  absl::Duration lease_remaining;
};

// A store's answers to completions and reservations of one call.
struct SharedAnswers {
  std::vector<absl::StatusOr<Completion>> completions;
  std::vector<absl::StatusOr<Verdict>> verdicts;
};

// RESOURCE_EXHAUSTED / QUOTA_EXCEEDED: the key has no record, and only_existing.
absl::Status NoRoomForARecord();

// NOT_FOUND / RECORD_NOT_FOUND: the record does not exist, or the caller may not read it. One
// text for both.
absl::Status NoSuchRecord();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_RECORD_OPERATIONS_H_
