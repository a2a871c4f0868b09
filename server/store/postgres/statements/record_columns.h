#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_RECORD_COLUMNS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_RECORD_COLUMNS_H_

namespace idempotency::internal {

// Columns of read_to_reserve, read_large_to_reserve, read_to_settle and read_whole, confirmed or
// not; the first ones are the same in all.
namespace record_column {
enum : int {
  kId,
  kNamespace,
  kScope,
  kOperation,
  kKey,
  kState,
  kRequireRecovery,
  kRecovering,
  kAttempt,
  kToken,
  kRequestToken,
  kCreatedAt,
  kLeaseUntil,
  kExpiresAt,
  kCompletedAt,
  kFingerprints,
  kReplyDigest,
  kReplyUntil,
  kTombstoneUntil,
  kStatusDigest,
  kReleaseReason,
  kNow,
  // read_to_settle has NULL for the next three, and for kReplyUntil.
  kReply,
  kCheckpoint,
  // A JSON object; NULL when there are none.
  kLabels,
  // Not read.
  kConfirmed,
  // read_to_reserve and read_to_settle end here; read_whole has NULL for the checkpoint, and for
  // kConfirmed unless it is read_whole_confirmed.
  kParentNamespace,
  kParentScope,
  kParentOperation,
  kParentKey,
};
}  // namespace record_column

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_RECORD_COLUMNS_H_
