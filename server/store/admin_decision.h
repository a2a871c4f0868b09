// The rules of an administrator's operations as pure functions, for the stores that read a
// record, decide and write (decision.h). Time is the store's.
#ifndef IDEMPOTENCY_SERVER_STORE_ADMIN_DECISION_H_
#define IDEMPOTENCY_SERVER_STORE_ADMIN_DECISION_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/admin_operations.h"
#include "server/store/decision.h"
#include "server/store/record.h"

namespace idempotency::internal {

// List.

// The index that a pass follows.
enum class ListWalk {
  // The records of the namespace, by scope and id.
  kNamespace,
  // Those of one scope, by id.
  kScope,
  // The UNKNOWN ones, by id.
  kUnknown,
  // Those whose parent has a key, by id.
  kChildren,
};
ListWalk WalkOf(const ListOp& op);

// Where a page begins: behind op.after. In a walk by id, time-ordered ids whose age excludes
// them are skipped. nullopt: at the first record.
std::optional<RecordPlace> FirstPlace(const ListOp& op);

// How many records a page reads at most.
int VisitLimit(const ListOp& op);

// Whether a record of the walk is in the list. Forgotten records never are.
bool IsListed(const ListOp& op, const Record& record, absl::Time now);

// The audit log.

// Makes a page of entries that are added in the order of `op`, which outlives it.
class AuditPageMaker {
 public:
  explicit AuditPageMaker(const AuditOp& op) : op_(op) {}

  // The sequence behind which the page begins.
  static std::int64_t Place(const AuditOp& op);
  // How many entries to read: those that the page may visit, and one that shows that there are
  // more.
  static int ReadLimit(const AuditOp& op);
  // False once the page is full. Leaves out entries before op.after, and of other records.
  bool Add(AuditEntry entry);
  AuditPage Take() && { return std::move(page_); }

 private:
  const AuditOp& op_;
  int visited_ = 0;
  std::int64_t last_ = 0;
  AuditPage page_;
};

// Resolve.

struct ResolveDecision {
  // Write the answer's state and expires_at (tombstone_until moves with it), a new token, and
  // the reply and completed_at, or the reason and a lease that is over. Condition: token, attempt,
  // RESERVED or UNKNOWN, and without op.force no live lease. False: nothing to write.
  bool writes = false;
  RowVersion expected;
  // Once written, or at once if there is nothing to write.
  absl::StatusOr<Resolution> answer;
};

ResolveDecision DecideResolve(const ResolveOp& op, absl::Time now,
                              const std::optional<StoredRecord>& record);

// Purge.

// Forgetting the record may run its operation twice: it is UNKNOWN, its lease is live, or it
// expired under REQUIRE_RECOVERY.
bool NeedsForce(const Record& record, absl::Time now);

// Whether a record of the walk is part of the target.
bool IsTarget(const PurgeOp& op, const Record& record);

// Whether the one record of `op` may be purged: OK, RECORD_NOT_FOUND, RECORD_ID_COLLISION or
// FORCE_REQUIRED.
absl::Status CheckPurge(const PurgeOp& op, absl::Time now,
                        const std::optional<StoredRecord>& record);

// The times of a record that is reduced to a tombstone (SweepAction::kEntomb).
struct TombstoneTimes {
  absl::Time expires_at;
  absl::Time tombstone_until;
};
// How long the key of an UNKNOWN record that ends is refused (MaintenanceStore::EndUnknown).
absl::Duration RefusedAfterUnknown(const Record& record, absl::Time now);
TombstoneTimes TombstoneOf(const Record& record, absl::Duration tombstone, absl::Time now);

// Audit log.

AuditAction ActionOf(const ResolveOp& op);
AuditAction ActionOf(const PurgeOp& op);

// The entry of a change to `before`, without its sequence and key_hmac.
AuditEntry EntryFor(const Record& before, const AdminNote& note, AuditAction action, bool forced,
                    absl::Time now);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_ADMIN_DECISION_H_
