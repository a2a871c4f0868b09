#include "server/store/sqlite/schema.h"

#include <sqlite3.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "idempotency/v1/record.pb.h"
#include "server/store/sqlite/statement.h"
#include "server/store/sqlite/transaction.h"

namespace idempotency::internal {
namespace {

// Step N takes user_version from N to N + 1. A step that was released is never
// edited: add the next one.
//
// The CHECKs are the state machine's invariants: a bug shows as a refused
// write, not as a strange record a month later. The small columns of the first
// step come before the large ones, so that reading them does not follow a reply's
// overflow pages. Those that later steps add are behind the reply: reading a value
// of them follows its pages, and fails if one is damaged.
constexpr std::array<const char*, 5> kSteps = {
    R"sql(
CREATE TABLE records (
  -- 16 bytes. Those of UUIDv7 keys are ordered by time.
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  namespace TEXT NOT NULL,
  scope TEXT NOT NULL,
  operation TEXT NOT NULL,
  key TEXT NOT NULL,
  -- idempotency.v1.RecordState: 1 RESERVED, 2 COMPLETED, 3 RELEASED, 4 UNKNOWN.
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
  attempt INTEGER NOT NULL CHECK (attempt BETWEEN 1 AND 4294967295),
  -- Of the current or last grant, with what its caller sent to recognise it.
  token BLOB NOT NULL CHECK (length(token) = 16),
  request_token BLOB CHECK (length(request_token) = 16),
  recovering INTEGER NOT NULL CHECK (recovering IN (0, 1)),
  -- idempotency.v1.LeaseExpiry: 1 TAKE_OVER, 2 REQUIRE_RECOVERY.
  on_lease_expiry INTEGER NOT NULL CHECK (on_lease_expiry IN (1, 2)),
  -- Times are microseconds since 1970, UTC.
  created_at INTEGER NOT NULL,
  lease_expires_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  completed_at INTEGER,
  -- grpc_idempotency/fingerprint.h: EncodeFingerprints.
  fingerprints BLOB NOT NULL,
  release_reason TEXT NOT NULL DEFAULT '',
  -- An idempotency.v1.Record with nothing but parent and labels; NULL if empty.
  annotations BLOB,
  -- SHA-256 of reply.
  reply_digest BLOB CHECK (length(reply_digest) = 32),
  -- An idempotency.v1.Reply.
  reply BLOB,
  CHECK (created_at < expires_at),
  -- A lease ends with its record at the latest.
  CHECK (lease_expires_at <= expires_at),
  -- COMPLETED is the same as having a reply.
  CHECK ((state = 2) = (completed_at IS NOT NULL)),
  CHECK ((state = 2) = (reply_digest IS NOT NULL)),
  CHECK ((state = 2) = (reply IS NOT NULL)),
  CHECK (completed_at < expires_at)
) STRICT;
-- Apart from the record, so that heartbeats with a checkpoint do not rewrite it.
CREATE TABLE checkpoints (
  id BLOB NOT NULL PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE,
  checkpoint BLOB NOT NULL
) STRICT;
-- The gauges, without a scan.
CREATE INDEX records_reserved ON records (created_at) WHERE state = 1;
CREATE INDEX records_unknown ON records (id) WHERE state = 4;
)sql",
    R"sql(
-- From here on a replay has no content; the sweep drops it then.
ALTER TABLE records ADD COLUMN reply_until INTEGER;
-- A forgotten record's key is refused until here. The sweep then leaves state 3
-- and no fingerprint, and nothing else that could be done without.
ALTER TABLE records ADD COLUMN tombstone_until INTEGER
  CHECK (tombstone_until IS NULL OR tombstone_until > expires_at);
-- SHA-256 of reply once its content was dropped. reply_digest stays that of the
-- reply as it was completed.
ALTER TABLE records ADD COLUMN status_digest BLOB
  CHECK (status_digest IS NULL
    OR (length(status_digest) = 32 AND state = 2 AND reply_until IS NOT NULL));
)sql",
    R"sql(
-- The parent's key, which is in annotations too: for the index.
ALTER TABLE records ADD COLUMN parent_key TEXT;
CREATE INDEX records_by_scope ON records (namespace, scope, id);
CREATE INDEX records_by_parent ON records (parent_key, id) WHERE parent_key IS NOT NULL;
CREATE INDEX records_unknown_by_namespace ON records (namespace, id) WHERE state = 4;
-- The key of the HMACs in audit_log.
CREATE TABLE audit_key (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  key BLOB NOT NULL CHECK (length(key) = 32)
) STRICT;
INSERT INTO audit_key (id, key) VALUES (1, randomblob(32));
-- What administrators did, a row for each record. Only added to.
CREATE TABLE audit_log (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT NOT NULL,
  -- idempotency.v1.AuditAction.
  action INTEGER NOT NULL CHECK (action BETWEEN 1 AND 4),
  forced INTEGER NOT NULL CHECK (forced IN (0, 1)),
  namespace TEXT NOT NULL,
  record_id BLOB NOT NULL CHECK (length(record_id) = 16),
  -- HMAC-SHA256 of the record key under audit_key: server/store/audit_hmac.h.
  key_hmac BLOB NOT NULL CHECK (length(key_hmac) = 32),
  -- The record before.
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
  attempt INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_log_by_namespace ON audit_log (namespace, sequence);
CREATE TRIGGER audit_log_not_changed BEFORE UPDATE ON audit_log
BEGIN SELECT RAISE(ABORT, 'audit_log is only added to'); END;
CREATE TRIGGER audit_log_not_removed BEFORE DELETE ON audit_log
BEGIN SELECT RAISE(ABORT, 'audit_log is only added to'); END;
)sql",
    R"sql(
-- Entries that stand for many records. A CHECK cannot be changed, so the table is made anew; its
-- sequence goes on where it was, also if the log was cut.
CREATE TABLE audit_log_of_many (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT NOT NULL,
  action INTEGER NOT NULL CHECK (action BETWEEN 1 AND 5),
  forced INTEGER NOT NULL CHECK (forced IN (0, 1)),
  namespace TEXT NOT NULL,
  record_id BLOB NOT NULL CHECK (length(record_id) = 16),
  key_hmac BLOB NOT NULL CHECK (length(key_hmac) = 32),
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
  attempt INTEGER NOT NULL,
  records INTEGER NOT NULL CHECK (records >= 1)
) STRICT;
INSERT INTO sqlite_sequence (name, seq)
  SELECT 'audit_log_of_many', seq FROM sqlite_sequence WHERE name = 'audit_log';
INSERT INTO audit_log_of_many
  SELECT sequence, at, actor, reason, action, forced, namespace, record_id, key_hmac, state,
    attempt, 1 FROM audit_log;
DROP TABLE audit_log;
ALTER TABLE audit_log_of_many RENAME TO audit_log;
CREATE INDEX audit_log_by_namespace ON audit_log (namespace, sequence);
CREATE TRIGGER audit_log_not_changed BEFORE UPDATE ON audit_log
BEGIN SELECT RAISE(ABORT, 'audit_log is only added to'); END;
CREATE TRIGGER audit_log_not_removed BEFORE DELETE ON audit_log
BEGIN SELECT RAISE(ABORT, 'audit_log is only added to'); END;
)sql",
    R"sql(
-- For the gauge of running reservations, past those whose lease is over.
DROP INDEX records_reserved;
CREATE INDEX records_reserved ON records (lease_expires_at, created_at) WHERE state = 1;
)sql",
};
constexpr std::int64_t kVersion = kSteps.size();
// The version whose step added parent_key.
constexpr std::int64_t kParentKeysSince = 3;

// "IDMP", in the file's header.
constexpr std::int64_t kApplicationId = 0x49444d50;

absl::Status Damaged(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(
      path,
      " is damaged; restore it from a backup, or recover it with sqlite3's .recover. Either may "
      "lack "
      "records, whose operations would run again: before the next start set not_before in --config "
      "to the time now, and do the rest of \"SQLite\" in docs/restore.md"));
}

absl::Status Unreadable(const SqliteConnection& connection, const std::string& path) {
  switch (connection.error_code()) {
    case SQLITE_NOTADB:
      return absl::FailedPreconditionError(absl::StrCat(
          path, " is not a SQLite database; choose another path, or move that file away"));
    case SQLITE_CORRUPT:
      return Damaged(path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is locked by another program; stop it"));
    case SQLITE_READONLY:
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is read-only; make it writable for this user"));
    default:
      return absl::FailedPreconditionError(absl::StrCat(
          path, " cannot be read or written (", sqlite3_errstr(connection.error_code()),
          "); check its file system and permissions"));
  }
}

// Records of before step 3 have their parent in annotations alone.
absl::Status FillParentKeys(SqliteConnection& connection) {
  auto read = connection.Prepare(
      "SELECT id, annotations FROM records WHERE annotations IS NOT NULL AND parent_key IS NULL"
      " AND id > ?1 ORDER BY id LIMIT 1");
  if (!read.ok()) return read.status();
  auto write = connection.Prepare("UPDATE records SET parent_key = ?2 WHERE id = ?1");
  if (!write.ok()) return write.status();
  std::string last;
  while (true) {
    std::optional<std::string> parent;
    {
      // Ends before the write: its end would hide why the write failed.
      SqliteStatement::Run reading(*read);
      reading->BindBlob(1, last);
      const absl::StatusOr<bool> row = reading->Step();
      if (!row.ok() || !*row) return row.status();
      const std::string_view bytes = reading->Blob(1).value_or("");
      v1::Record annotations;
      // A damaged one stays unchanged; a read of that record reports it.
      if (annotations.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
          annotations.has_parent()) {
        parent = annotations.parent().key();
      }
      last = reading->Blob(0).value_or("");
    }
    if (!parent) continue;
    SqliteStatement::Run writing(*write);
    writing->BindBlob(1, last);
    writing->BindText(2, *parent);
    if (const absl::Status written = writing->ChangeOne(); !written.ok()) return written;
  }
}

absl::Status ApplySteps(SqliteConnection& connection, SqliteTransaction& transaction) {
  if (const absl::Status begun = transaction.Begin(); !begun.ok()) return begun;
  const absl::StatusOr<std::int64_t> version = connection.ReadInteger("PRAGMA user_version");
  if (!version.ok()) return version.status();
  for (std::size_t step = static_cast<std::size_t>(*version); step < kSteps.size(); ++step) {
    const absl::Status applied = connection.Execute(kSteps[step]);
    if (!applied.ok()) return applied;
  }
  if (*version < kParentKeysSince) {
    if (const absl::Status filled = FillParentKeys(connection); !filled.ok()) return filled;
  }
  const absl::Status marked = connection.Execute(
      absl::StrCat("PRAGMA application_id = ", kApplicationId, "; PRAGMA user_version = ", kVersion)
          .c_str());
  return marked.ok() ? transaction.Commit() : marked;
}

}  // namespace

absl::Status CheckSqliteSchema(SqliteConnection& connection, const std::string& path) {
  const auto objects = connection.ReadInteger("SELECT count(*) FROM sqlite_schema");
  if (!objects.ok()) return Unreadable(connection, path);
  const auto application = connection.ReadInteger("PRAGMA application_id");
  if (!application.ok()) return Unreadable(connection, path);
  const auto version = connection.ReadInteger("PRAGMA user_version");
  if (!version.ok()) return Unreadable(connection, path);
  if (*objects == 0 && *application == 0 && *version == 0) return absl::OkStatus();
  if (*application != kApplicationId || *version < 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is the database of another program; choose another path"));
  }
  if (*version > kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has schema version ", *version,
                                                      ", this build supports at most ", kVersion,
                                                      "; run the newer version that wrote it: "
                                                      "there is no downgrade"));
  }
  return absl::OkStatus();
}

absl::Status CheckSqliteFile(SqliteConnection& connection, const std::string& path) {
  const auto verdict = connection.ReadText("PRAGMA quick_check(1)");
  if (!verdict.ok()) return Unreadable(connection, path);
  return *verdict == "ok" ? absl::OkStatus() : Damaged(path);
}

absl::Status MigrateSqliteSchema(SqliteConnection& connection, const std::string& path) {
  const auto version = connection.ReadInteger("PRAGMA user_version");
  if (!version.ok()) return Unreadable(connection, path);
  if (*version == kVersion) return absl::OkStatus();
  SqliteTransaction transaction(connection);
  const absl::Status applied = ApplySteps(connection, transaction);
  // Before the transaction is rolled back, which would be what last succeeded.
  return applied.ok() ? applied : Unreadable(connection, path);
}

}  // namespace idempotency::internal
