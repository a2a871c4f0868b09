// The changes of administrators.
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "core/sha256.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/sqlite/records.h"
#include "server/store/sqlite/records/row.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

// ?4 whether the reply is without its content, whose digest stays.
constexpr char kReplaceReply[] =
    "UPDATE records SET reply = ?3, reply_digest = CASE WHEN ?4 THEN reply_digest ELSE ?5 END,"
    " status_digest = CASE WHEN ?4 THEN ?5 END"
    " WHERE id = ?1 AND token = ?2 AND state = 2 AND (status_digest IS NOT NULL) = ?4";
constexpr char kReplaceCheckpoint[] = "UPDATE checkpoints SET checkpoint = ?2 WHERE id = ?1";
constexpr char kSettle[] =
    "UPDATE records SET state = ?4, token = ?5, expires_at = ?6,"
    " tombstone_until = ?6 + (tombstone_until - expires_at),"
    " completed_at = ?7, reply_digest = ?8, reply = ?9,"
    " release_reason = CASE ?4 WHEN 3 THEN ?10 ELSE release_reason END,"
    " lease_expires_at = CASE ?4 WHEN 3 THEN ?11 ELSE lease_expires_at END"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state IN (1, 4)";
constexpr char kSetTombstone[] =
    "UPDATE records SET created_at = min(created_at, ?4 - 1), expires_at = ?4,"
    " tombstone_until = ?5,"
    " lease_expires_at = min(lease_expires_at, ?4)"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state = 3";

}  // namespace

absl::Status SqliteRecords::PrepareAdmin(SqliteConnection& connection) {
  return PrepareAll(connection, {{replace_reply_, kReplaceReply},
                                 {replace_checkpoint_, kReplaceCheckpoint},
                                 {settle_, kSettle},
                                 {set_tombstone_, kSetTombstone}});
}

absl::Status SqliteRecords::ReplaceReply(const RecordId& id, const Uuid& token,
                                         const EncodedReply& reply, bool content_dropped) {
  const std::string_view digest = AsBytes(reply.digest);
  SqliteStatement::Run run(replace_reply_);
  run->Bind(1, id);
  run->Bind(2, token);
  run->BindBlob(3, reply.bytes);
  run->Bind(4, std::int64_t{content_dropped});
  run->BindBlob(5, digest);
  return ChangeOneToMaintain(*run);
}

absl::Status SqliteRecords::ReplaceCheckpoint(const RecordId& id, std::string_view checkpoint) {
  SqliteStatement::Run run(replace_checkpoint_);
  run->Bind(1, id);
  run->BindBlob(2, checkpoint);
  return ChangeOneToMaintain(*run);
}

absl::Status SqliteRecords::Settle(const ResolveOp& op, const ResolveDecision& decision,
                                   absl::Time now) {
  std::string_view digest;
  if (op.reply) digest = AsBytes(op.reply->digest);
  SqliteStatement::Run run(settle_);
  run->Bind(1, op.id);
  run->Bind(2, decision.expected.token);
  run->Bind(3, std::int64_t{decision.expected.attempt});
  run->Bind(4, ToProto(decision.answer->state));
  run->Bind(5, op.token);
  run->Bind(6, decision.answer->expires_at);
  if (op.reply) {
    run->Bind(7, now);
    run->BindBlob(8, digest);
    run->BindBlob(9, op.reply->bytes);
  }
  run->BindText(10, op.note.reason);
  run->Bind(11, now);
  return run->ChangeOne();
}

absl::Status SqliteRecords::LeaveTombstone(const RecordId& id, const RowVersion& expected,
                                           const TombstoneTimes& times) {
  if (const absl::Status left = LeaveTombstone(id, expected); !left.ok()) return left;
  SqliteStatement::Run run(set_tombstone_);
  run->Bind(1, id);
  run->Bind(2, expected.token);
  run->Bind(3, std::int64_t{expected.attempt});
  run->Bind(4, times.expires_at);
  run->Bind(5, times.tombstone_until);
  return ChangeOneToMaintain(*run);
}

}  // namespace idempotency::internal
