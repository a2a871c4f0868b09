// The table of states and verdicts (docs/states.md) as pure functions: a
// store reads a record, calls these functions to decide, and executes the
// decision. No SQL, no IO, no clock: time enters as `now`, which is always the
// store's own.
//
// Every interval is half open. A lease is live while now < lease_expires_at, a
// record is kept while now < expires_at, a key is inside its window while now <
// key's time + window. So at the instant at which a record of a UUIDv7 key is
// forgotten its key is outside the window: there is no gap in which it could
// run again.
//
// How to use a decision: a store that keeps the record unchanged between
// reading and writing (SQLite: BEGIN IMMEDIATE) writes the values of the
// decision unchanged. One that does not (Postgres) writes only while the row has
// the decision's RowVersion, and with its own clock read again after any lock wait, in both SET and
// WHERE; if the conditional statement hits no row, it reads the record again and
// decides again.
//
// Times are whole microseconds, which every store can keep.
#ifndef IDEMPOTENCY_SERVER_STORE_DECISION_H_
#define IDEMPOTENCY_SERVER_STORE_DECISION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/sha256.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/record_operations.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// One record as a store has read it: the fields that Get returns, and those
// that only the store needs. For Reserve, `record.reply` is needed whole when
// COMPLETED; for Complete its digest is enough; Release, Extend and Sweep need
// none.
struct StoredRecord {
  Record record;
  // The request token of the Reserve that was granted `record.token`. A new grant always
  // overwrites it, with an empty one if its caller sent none.
  std::optional<Uuid> request_token;
  // That grant was a recovery grant. Kept so that a repeated Reserve gets the
  // same answer.
  bool recovering = false;
  // The digest of the reply as it was completed, once the sweep has dropped its content;
  // record.reply is then the remaining part, with its own digest.
  std::optional<Sha256Digest> completed_digest;
  // The last one stored; kept through new grants, dropped when the record is
  // started afresh. Needed by Reserve only.
  std::string checkpoint;
};

// The values that the row must still have when a change is written: the token
// and attempt that were read. A write never matches by id and state alone: the row may
// have been swept and inserted again for another request.
struct RowVersion {
  Uuid token;
  std::uint32_t attempt = 0;
};

// Reserve.

enum class ReserveAction {
  // Nothing to write: `answer` is the answer.
  kAnswer,
  // No row: insert one with `grant`. (A row that appears meanwhile: read and
  // decide again.)
  kInsert,
  // A forgotten row is still there: replace all of it by the row that an insert
  // would write, and drop its checkpoint. Condition: token, attempt, and still past
  // expires_at.
  kStartAfresh,
  // Next attempt of the same record: write token, request_token, recovering,
  // attempt, lease and state RESERVED; no reason if the last attempt's lease
  // expired. Everything else stays: created_at, expires_at, fingerprints,
  // policy, parent, labels, checkpoint. Condition: token, attempt, the same state,
  // and unless that was UNKNOWN still past its lease or pause.
  kGrant,
  // As kGrant, and expires_at = max(expires_at, now + op.retention). The only
  // change that ever moves expires_at. The lease is clipped to the new one, and
  // tombstone_until moves with it.
  kGrantRecovery,
  // The same grant again for a repeated request token whose lease was over:
  // write the lease, clipped to expires_at, and nothing else. Condition: token,
  // attempt, RESERVED.
  kRenewLease,
  // Lease over under REQUIRE_RECOVERY: write state UNKNOWN, no reason, then give `answer`
  // (OutcomeUnknown). Condition: token, attempt, RESERVED, still past its lease.
  kMarkUnknown,
};

// The values that a granting action writes, and its answer.
struct Grant {
  std::uint32_t attempt = 0;
  bool recovering = false;
  absl::Time created_at;
  absl::Time lease_expires_at;
  absl::Time expires_at;
  std::optional<absl::Time> tombstone_until;
  // Set for a first reservation.
  std::optional<absl::Time> reply_expires_at;
  // The checkpoint that the caller receives.
  std::string checkpoint;
  // The record's.
  std::map<std::string, std::string> labels;
  PreviousAttempt previous_attempt = PreviousAttempt::kNone;
  // For kRenewLease the token of the row; otherwise nil: the store generates
  // one.
  Uuid token;
  // See Reserved.
  bool took_over = false;
  bool after_expiry = false;
  bool repeated = false;
};

struct ReserveDecision {
  ReserveAction action = ReserveAction::kAnswer;
  // The answer for kAnswer and kMarkUnknown (once written).
  absl::StatusOr<Verdict> answer;
  // Set for the other actions.
  Grant grant;
  // Set for every action but kAnswer and kInsert.
  RowVersion expected;
};

// The end of a record's tombstone if its own end becomes `expires_at`: as much later as it was.
// nullopt for a record that leaves none.
std::optional<absl::Time> TombstoneAfter(const Record& record, absl::Time expires_at);

// Decides by the table. `record` is the row of op.id, nullopt if there is none.
//   line 1   RECORD_ID_COLLISION, also if that other record is forgotten
//   line 2   Expired: forgotten, and now < tombstone_until
//            Expired: forgotten, and now >= key's time + op.window
//            KEY_INVALID: forgotten, and the key's time > now + kMaxKeyAhead
//   line 3   kInsert or kStartAfresh
//   line 4   FINGERPRINT_UNKNOWN or Mismatch
//   line 5   Replay; without the reply's content once now >= reply_expires_at,
//            whether or not the sweep has dropped it
//   line 6   the same grant: as an answer while its lease is live, kRenewLease
//            once it is over. Past expires_at (REQUIRE_RECOVERY) the renewed
//            lease is clipped to nothing: lease_remaining 0
//   line 7   InFlight
//   line 8   kGrant with took_over
//   line 9   kGrantRecovery with op.recover; else kMarkUnknown from RESERVED,
//            and OutcomeUnknown as an answer from UNKNOWN
//   line 10  RESERVATION_LOST
//   line 11  InFlight, paused, until the pause of the release is over
//   line 12  kGrant
// Fingerprints, policy, parent and labels are those of the first reservation.
ReserveDecision DecideReserve(const ReserveOp& op, absl::Time now,
                              std::optional<StoredRecord> record);

// The verdict for a grant that was written under `token`, at `now`.
Reserved ToReserved(Grant grant, const Uuid& token, absl::Time now);

// The record that a first reservation at `now` writes.
Grant FirstGrant(const ReserveOp& op, absl::Time now);

// Complete.

struct CompleteDecision {
  // Write state COMPLETED, reply, and completed_at = now. Condition: token, and
  // RESERVED or UNKNOWN, and now < expires_at. False: nothing to write.
  bool writes = false;
  // Once written, or at once if there is nothing to write.
  absl::StatusOr<Completion> answer;
};

// RESERVATION_LOST if there is no row, it is past expires_at (in any state,
// under any policy), the token differs, or the state is RELEASED; or COMPLETED
// with another reply by digest. RECORD_ID_COLLISION for another key's record.
CompleteDecision DecideComplete(const CompleteOp& op, absl::Time now,
                                const std::optional<StoredRecord>& record);

// Release.

struct ReleaseDecision {
  // Write this state, the reason (StoredReason) and the end of the pause in the
  // lease's place. Condition: token, and RESERVED. nullopt: nothing to write.
  std::optional<RecordState> becomes;
  absl::Time lease_expires_at;
  // Once written, or at once if there is nothing to write.
  absl::Status answer;
};

// A repetition finds a record that the token still matches in the state that
// this release requests: OK. So RELEASED for an op that reports that nothing
// happened, UNKNOWN for one that reports an unknown outcome; anything else is
// RESERVATION_LOST, as is a forgotten record. An expired lease does not matter,
// nor expires_at under REQUIRE_RECOVERY: such a record is not forgotten.
ReleaseDecision DecideRelease(const ReleaseOp& op, absl::Time now,
                              const std::optional<StoredRecord>& record);

// The reason that a release stores in the record; never empty.
std::string_view StoredReason(const ReleaseOp& op);

// The answer for a record that is UNKNOWN, or about to be.
OutcomeUnknown ToOutcomeUnknown(const Record& record);

// Extend.

struct ExtendDecision {
  // Write this lease (it is never earlier than the stored one), and
  // op.checkpoint if set. Condition: token, RESERVED, now < expires_at. nullopt:
  // nothing to write.
  std::optional<absl::Time> lease_expires_at;
  // Once written, or at once if there is nothing to write.
  absl::StatusOr<Extension> answer;
};

// max(stored lease, min(now + op.lease, expires_at)). RESERVATION_LOST if there
// is no row, it is past expires_at (under any policy: a lease ends with its
// record), the token differs, or it is not RESERVED.
ExtendDecision DecideExtend(const ExtendOp& op, absl::Time now,
                            const std::optional<StoredRecord>& record);

// Get: the record, RECORD_NOT_FOUND if there is none or it is forgotten, or
// RECORD_ID_COLLISION. Its reply is that of a Replay.
absl::StatusOr<Record> DecideGet(const GetOp& op, absl::Time now,
                                 std::optional<StoredRecord> record);

// Sweep.

enum class SweepAction {
  kKeep,
  // Forgotten, and the tombstone over, for limits::kClockStepMargin. Condition: still so.
  kRemove,
  // Reduce a forgotten record to its tombstone: id, key, times; state RELEASED
  // and no fingerprint mark it. Forgotten for limits::kClockStepMargin. Condition: still so.
  kEntomb,
  // Replace the reply by the result of WithoutContent. Condition: token, attempt,
  // COMPLETED.
  kDropReply,
  // State UNKNOWN, and no reason. Condition: still RESERVED, REQUIRE_RECOVERY and
  // past its lease.
  kMarkUnknown,
};

// The fields of a record that a sweep needs.
struct SweepView {
  RecordState state = RecordState::kReserved;
  LeaseExpiry on_lease_expiry = LeaseExpiry::kRequireRecovery;
  absl::Time lease_expires_at;
  absl::Time expires_at;
  std::optional<absl::Time> reply_expires_at;
  std::optional<absl::Time> tombstone_until;
  // Each has been done already.
  bool reply_dropped = false;
  bool entombed = false;
};

SweepAction DecideSweep(const SweepView& record, absl::Time now);

// Past expires_at, and neither UNKNOWN nor RESERVED under REQUIRE_RECOVERY.
bool IsForgotten(RecordState state, LeaseExpiry policy, absl::Time expires_at, absl::Time now);
// The same, or reduced to a tombstone.
bool IsForgotten(const Record& record, absl::Time now);

// The precision in which every store keeps times. A duration of a request is cut after every check:
// a value that exceeds a limit by less is too long.
absl::Time WholeMicroseconds(absl::Time time);
absl::Duration WholeMicroseconds(absl::Duration duration);

// INTERNAL / RECORD_ID_COLLISION.
absl::Status RecordIdCollision();
// FINGERPRINT_UNKNOWN.
absl::Status FingerprintUnknown();
// KEY_INVALID: a UUIDv7 key that is more than limits::kMaxKeyAhead ahead.
absl::Status KeyTooFarAhead();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_DECISION_H_
