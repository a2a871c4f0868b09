// Grants of reservations.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "idempotency/v1/record.pb.h"
#include "server/store/sqlite/records.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

constexpr char kInsert[] =
    "INSERT INTO records (id, namespace, scope, operation, key, state, attempt, token,"
    " request_token, recovering, on_lease_expiry, created_at, lease_expires_at, expires_at,"
    " fingerprints, annotations, reply_until, tombstone_until, parent_key)"
    " VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, 0, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
constexpr char kGrantNext[] =
    "UPDATE records SET state = 1, attempt = ?4, token = ?5, request_token = ?6, recovering = ?7,"
    " lease_expires_at = ?8, expires_at = ?9, tombstone_until = ?10,"
    " release_reason = CASE state WHEN 1 THEN '' ELSE release_reason END"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state <> 2";
constexpr char kRenewLease[] =
    "UPDATE records SET lease_expires_at = ?4"
    " WHERE id = ?1 AND token = ?2 AND attempt = ?3 AND state = 1";

std::string EncodeAnnotations(const ReserveOp& op) {
  v1::Record annotations;
  if (op.parent) *annotations.mutable_parent() = ToProto(*op.parent);
  annotations.mutable_labels()->insert(op.labels.begin(), op.labels.end());
  return annotations.SerializeAsString();
}

}  // namespace

absl::Status SqliteRecords::PrepareReserve(SqliteConnection& connection) {
  return PrepareAll(connection,
                    {{insert_, kInsert}, {grant_next_, kGrantNext}, {renew_lease_, kRenewLease}});
}

absl::Status SqliteRecords::Insert(const ReserveOp& op, const Grant& grant, const Uuid& token) {
  const std::string fingerprints = EncodeFingerprints(op.fingerprints);
  const std::string annotations = EncodeAnnotations(op);
  SqliteStatement::Run run(insert_);
  run->Bind(1, op.id);
  run->BindText(2, op.key.name_space);
  run->BindText(3, op.key.scope);
  run->BindText(4, op.key.operation);
  run->BindText(5, op.key.key);
  run->Bind(6, std::int64_t{grant.attempt});
  run->Bind(7, token);
  run->Bind(8, op.request_token);
  run->Bind(9, ToProto(op.on_lease_expiry));
  run->Bind(10, grant.created_at);
  run->Bind(11, grant.lease_expires_at);
  run->Bind(12, grant.expires_at);
  run->BindBlob(13, fingerprints);
  if (!annotations.empty()) run->BindBlob(14, annotations);
  if (grant.reply_expires_at) run->Bind(15, *grant.reply_expires_at);
  if (grant.tombstone_until) run->Bind(16, *grant.tombstone_until);
  if (op.parent) run->BindText(17, op.parent->key);
  return run->ChangeOne();
}

absl::Status SqliteRecords::StartAfresh(const ReserveOp& op, const Grant& grant, const Uuid& token,
                                        const RowVersion& expected) {
  const absl::Status removed = RemoveToStartAfresh(op.id, expected);
  return removed.ok() ? Insert(op, grant, token) : removed;
}

absl::Status SqliteRecords::GrantNext(const ReserveOp& op, const Grant& grant, const Uuid& token,
                                      const RowVersion& expected) {
  SqliteStatement::Run run(grant_next_);
  run->Bind(1, op.id);
  run->Bind(2, expected.token);
  run->Bind(3, std::int64_t{expected.attempt});
  run->Bind(4, std::int64_t{grant.attempt});
  run->Bind(5, token);
  run->Bind(6, op.request_token);
  run->Bind(7, std::int64_t{grant.recovering});
  run->Bind(8, grant.lease_expires_at);
  run->Bind(9, grant.expires_at);
  if (grant.tombstone_until) run->Bind(10, *grant.tombstone_until);
  return run->ChangeOne();
}

absl::Status SqliteRecords::RenewLease(const RecordId& id, absl::Time lease_expires_at,
                                       const RowVersion& expected) {
  SqliteStatement::Run run(renew_lease_);
  run->Bind(1, id);
  run->Bind(2, expected.token);
  run->Bind(3, std::int64_t{expected.attempt});
  run->Bind(4, lease_expires_at);
  return run->ChangeOne();
}

}  // namespace idempotency::internal
