// What administrators do with records: list, settle, purge, and read the log of it.
#ifndef IDEMPOTENCY_SERVER_STORE_ADMIN_OPERATIONS_H_
#define IDEMPOTENCY_SERVER_STORE_ADMIN_OPERATIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "core/sha256.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/limits.h"
#include "server/store/record.h"

namespace idempotency::internal {

// Where a walk through the records of a namespace stands. Scope and id never change, so
// it stays valid whatever happens to the records.
struct RecordPlace {
  std::string scope;
  RecordId id;
};

// Who changes a record, and why. Both are UTF-8 without control characters, within
// limits::kMaxActorBytes and kMaxAdminReasonBytes.
struct AdminNote {
  std::string actor;
  std::string reason;
};

// Selects the records of a namespace for which every set field holds. The order of a pass is
// by id for UNKNOWN, for a parent, and in a scope; otherwise by scope and id.
struct ListOp {
  std::string name_space;
  std::optional<std::string> scope;
  std::optional<std::string> operation;
  std::optional<RecordState> state;
  // Half open: created_after <= created_at < created_before.
  std::optional<absl::Time> created_after;
  std::optional<absl::Time> created_before;
  std::optional<RecordKey> parent;
  // Where the last page ended.
  std::optional<RecordPlace> after;
  // 1 to limits::kMaxListPage.
  int limit = limits::kDefaultListPage;
};

struct RecordPage {
  std::vector<Record> records;
  // Those that could not be read, and may be among the selected ones.
  std::int64_t damaged = 0;
  // Where to continue; nullopt at the end.
  std::optional<RecordPlace> next;
};

struct ResolveOp {
  RecordKey key;
  RecordId id;
  // What the administrator saw.
  std::uint32_t expected_attempt = 0;
  std::optional<RecordState> expected_state;
  // COMPLETED with this reply; nullopt: RELEASED, nothing happened.
  std::optional<EncodedReply> reply;
  // The same reply, in case the record is COMPLETED with it under another key (CompleteOp).
  std::vector<Sha256Digest> other_digests;
  // The record's token afterwards: the attempt that holds the one before writes no more.
  Uuid token = Uuid::Random();
  // The record is kept for at least this long from now.
  absl::Duration retention = limits::kDefaultRetention;
  // Also under a live lease.
  bool force = false;
  // Decides and writes nothing.
  bool validate_only = false;
  AdminNote note;
};

struct Resolution {
  RecordState before = RecordState::kUnknown;
  RecordState state = RecordState::kUnknown;
  std::uint32_t attempt = 0;
  absl::Time expires_at;
  // It had been settled in this way before: nothing was written.
  bool repeated = false;
  // As in the audit log.
  Sha256Digest key_hmac{};
};

// The target is one record (`key`), a scope of the namespace, or its records created before
// a time.
struct PurgeOp {
  std::string name_space;
  std::optional<RecordKey> key;
  std::optional<std::string> scope;
  std::optional<absl::Time> created_before;
  // How long the keys are refused afterwards; zero: they are new keys again. Never
  // shortens a tombstone that is there.
  absl::Duration tombstone = absl::ZeroDuration();
  // Also records whose operation may then run twice (NeedsForce).
  bool force = false;
  // The state and the attempt of the one record that the administrator saw.
  std::optional<RecordState> expected_state;
  std::optional<std::uint32_t> expected_attempt;
  // Counts and changes nothing.
  bool validate_only = false;
  std::optional<RecordPlace> after;
  // 1 to limits::kMaxPurgeStep.
  int limit = limits::kMaxPurgeStep;
  AdminNote note;
};

struct PurgeStep {
  // The records that were purged, or would be.
  std::vector<RecordId> purged;
  // The records that need force.
  std::int64_t refused = 0;
  // Those that another transaction has locked, or that changed meanwhile, or that cannot be
  // read: another pass finds them.
  std::int64_t busy = 0;
  // Where to continue; nullopt at the end, and for one record.
  std::optional<RecordPlace> next;
  // If the target is one record: its HMAC in the audit log, and its state and attempt as found.
  Sha256Digest key_hmac{};
  RecordState before = RecordState::kUnknown;
  std::uint32_t attempt = 0;
};

// Their numbers are those of idempotency.v1.AuditAction, and stored.
enum class AuditAction {
  kResolvedCompleted = 1,
  kResolvedReleased = 2,
  kPurged = 3,
  kPurgedToTombstone = 4,
  kResealed = 5,
};

// What was done to one record; for kResealed, to `records` of them.
struct AuditEntry {
  // Rising in the order in which entries were written, with gaps. Two that were written at
  // the same time may become visible in the other order.
  std::int64_t sequence = 0;
  // By the store's clock.
  absl::Time at;
  AdminNote note;
  AuditAction action = AuditAction::kPurged;
  bool forced = false;
  // For kResealed, the record with the highest id.
  RecordId record_id;
  std::string name_space;
  // AuditHmac() of the key.
  Sha256Digest key_hmac{};
  // The record before.
  RecordState state = RecordState::kUnknown;
  std::uint32_t attempt = 0;
  // How many records the entry stands for: 1, unless it is kResealed.
  std::int64_t records = 1;
};

struct AuditOp {
  std::string name_space;
  // Where the last page ended; 0 at the beginning.
  std::int64_t after = 0;
  // 1 to limits::kMaxListPage.
  int limit = limits::kDefaultListPage;
  // Only entries of this record.
  std::optional<RecordId> record_id = std::nullopt;
  // By falling sequences, not by rising ones.
  bool newest_first = false;
};

struct AuditPage {
  std::vector<AuditEntry> entries;
  // Where to continue; nullopt at the end.
  std::optional<std::int64_t> next;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_ADMIN_OPERATIONS_H_
