#include "server/store/sqlite/audit.h"

#include <string>
#include <string_view>
#include <utility>

#include "core/sha256.h"
#include "grpc_idempotency/errors.h"
#include "server/store/admin_decision.h"
#include "server/store/audit_hmac.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

constexpr char kReadKey[] = "SELECT key FROM audit_key WHERE id = 1";
constexpr char kAppend[] =
    "INSERT INTO audit_log (at, actor, reason, action, forced, namespace, record_id, key_hmac,"
    " state, attempt, records) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
#define IDEMPOTENCY_READ_AUDIT                                                                 \
  "SELECT sequence, at, actor, reason, action, forced, namespace, record_id, key_hmac, state," \
  " attempt, records FROM audit_log INDEXED BY audit_log_by_namespace WHERE namespace = ?1 AND "
constexpr char kRead[] = IDEMPOTENCY_READ_AUDIT "sequence > ?2 ORDER BY sequence LIMIT ?3";
constexpr char kReadNewest[] =
    IDEMPOTENCY_READ_AUDIT "sequence < ?2 ORDER BY sequence DESC LIMIT ?3";
#undef IDEMPOTENCY_READ_AUDIT

AuditEntry EntryFrom(const SqliteStatement& row) {
  AuditEntry entry;
  entry.sequence = row.Integer(0).value_or(0);
  entry.at = row.Time(1).value_or(absl::Time());
  entry.note = {std::string(row.Text(2).value_or("")), std::string(row.Text(3).value_or(""))};
  entry.action = static_cast<AuditAction>(row.Integer(4).value_or(0));
  entry.forced = row.Integer(5).value_or(0) != 0;
  entry.name_space = std::string(row.Text(6).value_or(""));
  entry.record_id = row.UuidBlob(7).value_or(RecordId());
  entry.key_hmac = AuditHmacFrom(row.Blob(8).value_or(""));
  entry.state = RecordStateFrom(row.Integer(9).value_or(0)).value_or(RecordState::kUnknown);
  entry.attempt = static_cast<std::uint32_t>(row.Integer(10).value_or(0));
  entry.records = row.Integer(11).value_or(1);
  return entry;
}

}  // namespace

absl::StatusOr<SqliteAudit> SqliteAudit::Prepare(SqliteConnection& connection) {
  SqliteAudit audit;
  const std::pair<SqliteStatement*, const char*> statements[] = {
      {&audit.read_key_, kReadKey},
      {&audit.append_, kAppend},
      {&audit.read_, kRead},
      {&audit.read_newest_, kReadNewest}};
  for (const auto& [statement, sql] : statements) {
    absl::StatusOr<SqliteStatement> prepared = connection.Prepare(sql);
    if (!prepared.ok()) return prepared.status();
    *statement = *std::move(prepared);
  }
  return audit;
}

absl::StatusOr<Sha256Digest> SqliteAudit::HmacOf(const RecordKey& key) {
  SqliteStatement::Run run(read_key_);
  const absl::StatusOr<bool> row = run->Step();
  if (!row.ok()) return row.status();
  const auto audit_key = *row ? run->Blob(0) : std::nullopt;
  if (!audit_key) {
    return MakeError(Reason::kStoreUnavailable,
                     "the file has no audit key; restore it from a backup");
  }
  return AuditHmac(*audit_key, key);
}

absl::Status SqliteAudit::Append(const AuditEntry& entry) {
  SqliteStatement::Run run(append_);
  run->Bind(1, entry.at);
  run->BindText(2, entry.note.actor);
  run->BindText(3, entry.note.reason);
  run->Bind(4, static_cast<std::int64_t>(entry.action));
  run->Bind(5, std::int64_t{entry.forced});
  run->BindText(6, entry.name_space);
  run->Bind(7, entry.record_id);
  run->BindBlob(8, AsBytes(entry.key_hmac));
  run->Bind(9, ToProto(entry.state));
  run->Bind(10, std::int64_t{entry.attempt});
  run->Bind(11, entry.records);
  return run->ChangeOne();
}

absl::StatusOr<AuditPage> SqliteAudit::Read(const AuditOp& op) {
  AuditPageMaker page(op);
  SqliteStatement::Run run(op.newest_first ? read_newest_ : read_);
  run->BindText(1, op.name_space);
  run->Bind(2, AuditPageMaker::Place(op));
  run->Bind(3, std::int64_t{AuditPageMaker::ReadLimit(op)});
  for (absl::StatusOr<bool> row = run->Step();; row = run->Step()) {
    if (!row.ok()) return row.status();
    if (!*row || !page.Add(EntryFrom(*run))) return std::move(page).Take();
  }
}

}  // namespace idempotency::internal
