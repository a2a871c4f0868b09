#ifndef IDEMPOTENCY_SERVER_STORE_STORE_H_
#define IDEMPOTENCY_SERVER_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "core/sha256.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/admin_operations.h"
#include "server/store/held_session.h"
#include "server/store/namespace_usage.h"
#include "server/store/record.h"
#include "server/store/reseal_operations.h"
#include "server/store/unknown_records.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// Operations. `id` is always RecordIdFor(key): callers compute it once. Fields are
// already validated (grpc_idempotency/limits.h); durations are whole microseconds.

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
  // How old an unknown UUIDv7 key may be.
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

struct SweepOp {
  // Where the last call of this pass stopped; nullopt starts a pass at the
  // lowest id.
  std::optional<RecordId> after;
  // Where to stop at the latest: the `next` of an earlier step, beyond `after`.
  std::optional<RecordId> until;
  // At most this many records are examined for removal. At least 1.
  int limit = 500;
};

struct SweepProgress {
  std::int64_t removed = 0;
  // RESERVED under REQUIRE_RECOVERY with an expired lease.
  std::int64_t marked_unknown = 0;
  // Only the tombstone of these forgotten records is left.
  std::int64_t entombed = 0;
  // Of completed records only the status is left.
  std::int64_t replies_dropped = 0;
  // How many records were examined.
  std::int64_t visited = 0;
  // Where to continue; nullopt at the end of the pass.
  std::optional<RecordId> next;
  // Before this no record between `after` and `next` needs the sweep, except
  // records that arrived late or were recovered since. Zero: not known.
  absl::Duration quiet = absl::ZeroDuration();
  // Another replica is sweeping: nothing was done.
  bool elsewhere = false;
};

// Numbers for /metrics; reading them must be cheap at any table size.
struct StoreGauges {
  // Counting stops at this number.
  static constexpr std::int64_t kMaxCountedUnknown = 1000;

  // How long ago the oldest record that is RESERVED under a live lease was first
  // reserved. Zero if there is none: a record whose attempt was abandoned does not
  // count.
  absl::Duration oldest_reserved_age;
  // At most kMaxCountedUnknown, which means that many or more.
  std::int64_t unknown_records = 0;
};

// The storage of records. Every implementation decides by the table of states
// and verdicts in docs/states.md, atomically and by its own clock, and
// passes one conformance suite (tests/conformance).
//
// Thread-safe: any thread may call any method at any time. The methods are in groups: batches, the
// steps of background work, administration, and a few others. All block until the store has
// answered, except MatchRequest() and Hold(), which wait for nothing.
//
// Failures of a single operation, beside those named at each method:
//   UNAVAILABLE / STORE_UNAVAILABLE     The outcome is unknown: it may or may not
//                                       have happened. Repeat it with the same
//                                       tokens until it is answered.
//   INTERNAL / RECORD_ID_COLLISION      Another key has this id. Nothing changed.
//   DATA_LOSS / RECORD_DAMAGED          The stored row cannot be read. Nothing
//                                       changed, and it is never run again.
// RESERVATION_LOST names its cause (server/store/lost_reservation.h). Errors never contain SQL,
// keys, tokens or replies.
class Store {
 public:
  virtual ~Store() = default;

  // Batches, from several workers of the batcher at a time. Each operation is answered at its
  // index; a single call is a batch of one. Operations of one batch behave as if done one after
  // the other in some order. The caller puts at most one operation per record in a batch, and at
  // most limits::kMaxBatch.
  //
  // Once the replies in the answers of one Reserve or Get reach limits::kMaxBatchReplyBytes, the
  // remaining operations are answered RESOURCE_EXHAUSTED / OVERLOADED and are not executed: the
  // caller sends them again with its next call. The first one never is.

  // Decides which caller may run. Beside the verdicts:
  //   INVALID_ARGUMENT / KEY_INVALID             new UUIDv7 key from more than
  //                                              limits::kMaxKeyAhead ahead
  //   FAILED_PRECONDITION / FINGERPRINT_UNKNOWN  no fingerprint version in common
  //   FAILED_PRECONDITION / RESERVATION_LOST     the request token's grant was released
  //   RESOURCE_EXHAUSTED / QUOTA_EXCEEDED        a new or a forgotten key, and only_existing
  // Once `Reserved` is answered the grant is durable, unless it is Reserved::relaxed.
  virtual std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) = 0;

  // Stores a reply. OK if the token matches and the record is RESERVED (also
  // after its lease, if no attempt took over) or UNKNOWN, and again for the
  // same token and the same reply. Otherwise, and once the record has expired
  // or is removed, FAILED_PRECONDITION / RESERVATION_LOST. Once OK is answered
  // the reply is durable.
  virtual std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) = 0;

  // As Complete() and Reserve(), one after the other in either order; a record
  // may be in both. A store whose commits cost more than its statements has
  // them share one.
  virtual SharedAnswers CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                           absl::Span<const ReserveOp> reservations) {
    SharedAnswers answers;
    answers.completions = Complete(completions);
    answers.verdicts = Reserve(reservations);
    return answers;
  }

  // Releases a reservation: RESERVED and token matches -> RELEASED, not to be
  // granted before `pause` is over, or UNKNOWN if `outcome_unknown`. Repeating it
  // is OK and changes nothing. Otherwise
  // FAILED_PRECONDITION / RESERVATION_LOST. The row stays.
  virtual std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) = 0;

  // Lengthens a lease: never shortens it, never beyond the record's expiry,
  // never revives UNKNOWN; works after the lease has expired if no attempt took
  // over. Otherwise FAILED_PRECONDITION / RESERVATION_LOST.
  virtual std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) = 0;

  // Reads a record without changing it. NOT_FOUND / RECORD_NOT_FOUND if there
  // is none, or it is forgotten.
  virtual std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) = 0;

  // Background work, from the threads of the sweeper, the usage meter and the store monitor: one
  // step a call, which reads a bounded number of records.

  // Removes forgotten records whose tombstone is over (or reduces them to it),
  // limits::kClockStepMargin later, so that a clock that steps back by less finds
  // every record whose window it opens again; drops the content of replies whose
  // retention is over, and turns expired REQUIRE_RECOVERY reservations into
  // UNKNOWN, from the lowest id upwards, at most `limit` at a time. Never changes
  // a record that a Reserve has just revived. Only frees space: no answer depends
  // on whether it ran.
  virtual absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) = 0;

  // Reduces records that have been UNKNOWN for longer than `life` to a tombstone, for namespaces
  // that bound it. The key stays refused for the rest of the record's retention, or, if that is
  // over, for as long as it was: an operation that may have had its effect never runs again.
  virtual absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) = 0;

  // One step through the records of a namespace. Reads at most `limit` rows by an index, and no
  // reply. Not confirmed by a standby.
  virtual absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) = 0;

  // OK while the next completion can be made durable: a write of this process was
  // committed recently, or a test write succeeds in time. Also the gauges.
  virtual absl::StatusOr<StoreGauges> Inspect() = 0;

  // For administrators (server/store/admin_operations.h): rare, one at a time from their worker,
  // and not in batches. What changes a record writes its entry of the audit log in the same
  // transaction. Each also fails with STORE_UNAVAILABLE; repeating it is safe.

  // A page of the records that `op` selects, without their replies, in the order
  // of their places. Reads at most limits::kMaxListVisited records by an index, so a
  // page may have fewer records than its limit, or none, and yet a next one. Over a
  // pass no record appears twice, and every record that matched all the time appears.
  // A damaged record is left out: Get reports it. Not confirmed by a standby.
  virtual absl::StatusOr<RecordPage> List(const ListOp& op) = 0;

  // Settles a record whose attempt cannot. A new token replaces that of the attempt:
  // neither it nor a recovery that began before writes any more.
  //   NOT_FOUND / RECORD_NOT_FOUND          As in Get
  //   FAILED_PRECONDITION / RECORD_CHANGED  Another state or attempt than expected,
  //                                         or neither RESERVED nor UNKNOWN
  //   FAILED_PRECONDITION / FORCE_REQUIRED  RESERVED under a live lease
  // A repetition finds the record settled in the same way: OK, and writes nothing.
  virtual absl::StatusOr<Resolution> Resolve(const ResolveOp& op) = 0;

  // One step of a purge, one transaction: examines the next `limit` records of the
  // target by an index, and forgets those that it may. For one record:
  //   NOT_FOUND / RECORD_NOT_FOUND          As in Get
  //   FAILED_PRECONDITION / FORCE_REQUIRED  It may run twice (NeedsForce)
  // Also removes forgotten records and tombstones of a scope.
  virtual absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) = 0;

  // One step of sealing anew. Reads the next records of the namespace by an index, has op.sealer
  // seal their parts, and replaces those whose record still has the token, and the very part, that
  // was read. One transaction writes them, and one entry of the audit log for all. REQUEST_INVALID
  // without a sealer.
  virtual absl::StatusOr<ResealStep> Reseal(const ResealOp& op) = 0;

  // A page of the audit log, oldest entries first.
  virtual absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) = 0;

  // What waits for nothing.

  // Compares a record that Get() answered with a request, as Reserve() does. From any thread.
  virtual FingerprintMatch MatchRequest(const Record& record, const ReserveOp& op) const;

  // Returns a session for an idle thread, through which another one can begin a call. Does not
  // wait: returns nullptr if no session is idle, or if the store has no such sessions. The store
  // calls `wanted` at most once, from any thread, when another call waits for a session; the idle
  // thread then destroys its session soon. `wanted` must not block, nor call the store, which
  // outlives the session.
  virtual std::unique_ptr<HeldSession> Hold([[maybe_unused]] std::function<void()> wanted) {
    return nullptr;
  }
};

// RESOURCE_EXHAUSTED / QUOTA_EXCEEDED: the key has no record, and only_existing.
absl::Status NoRoomForARecord();

// NOT_FOUND / RECORD_NOT_FOUND: the record does not exist, or the caller may not read it. One
// text for both.
absl::Status NoSuchRecord();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_STORE_H_
