// How an attempt continues, and how it ends.
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

constexpr char kMarkUnknown[] =
    "UPDATE records SET state = 4, release_reason = ''"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state = 1";
constexpr char kComplete[] =
    "UPDATE records SET state = 2, completed_at = ?3, reply_digest = ?4, reply = ?5"
    " WHERE id = ?1 AND token = ?2 AND state IN (1, 4)";
constexpr char kRelease[] =
    "UPDATE records SET state = ?3, release_reason = ?4, lease_expires_at = ?5"
    " WHERE id = ?1 AND token = ?2 AND state = 1";
constexpr char kExtend[] =
    "UPDATE records SET lease_expires_at = ?3 WHERE id = ?1 AND token = ?2 AND state = 1";
constexpr char kStoreCheckpoint[] =
    "INSERT INTO checkpoints (id, checkpoint) VALUES (?1, ?2)"
    " ON CONFLICT (id) DO UPDATE SET checkpoint = excluded.checkpoint";

}  // namespace

absl::Status SqliteRecords::PrepareSettle(SqliteConnection& connection) {
  return PrepareAll(connection, {{mark_unknown_, kMarkUnknown},
                                 {complete_, kComplete},
                                 {release_, kRelease},
                                 {extend_, kExtend},
                                 {store_checkpoint_, kStoreCheckpoint}});
}

absl::Status SqliteRecords::MarkUnknown(const RecordId& id, const RowVersion& expected) {
  SqliteStatement::Run run(mark_unknown_);
  run->Bind(1, id);
  run->Bind(2, expected.token);
  run->Bind(3, std::int64_t{expected.attempt});
  return run->ChangeOne();
}

absl::Status SqliteRecords::MarkUnknownToMaintain(const RecordId& id, const RowVersion& expected) {
  SqliteStatement::Run run(mark_unknown_);
  run->Bind(1, id);
  run->Bind(2, expected.token);
  run->Bind(3, std::int64_t{expected.attempt});
  return ChangeOneToMaintain(*run);
}

absl::Status SqliteRecords::Complete(const CompleteOp& op, absl::Time now) {
  const std::string_view digest = AsBytes(op.reply.digest);
  SqliteStatement::Run run(complete_);
  run->Bind(1, op.id);
  run->Bind(2, op.token);
  run->Bind(3, now);
  run->BindBlob(4, digest);
  run->BindBlob(5, op.reply.bytes);
  return run->ChangeOne();
}

absl::Status SqliteRecords::Release(const ReleaseOp& op, RecordState becomes,
                                    absl::Time lease_expires_at) {
  SqliteStatement::Run run(release_);
  run->Bind(1, op.id);
  run->Bind(2, op.token);
  run->Bind(3, ToProto(becomes));
  run->BindText(4, StoredReason(op));
  run->Bind(5, lease_expires_at);
  return run->ChangeOne();
}

absl::Status SqliteRecords::Extend(const ExtendOp& op, absl::Time lease_expires_at) {
  {
    SqliteStatement::Run run(extend_);
    run->Bind(1, op.id);
    run->Bind(2, op.token);
    run->Bind(3, lease_expires_at);
    const absl::Status extended = run->ChangeOne();
    if (!extended.ok() || !op.checkpoint) return extended;
  }
  SqliteStatement::Run run(store_checkpoint_);
  run->Bind(1, op.id);
  run->BindBlob(2, *op.checkpoint);
  return run->ChangeOne();
}

}  // namespace idempotency::internal
