#ifndef IDEMPOTENCY_SERVER_STORE_ADMIN_STORE_H_
#define IDEMPOTENCY_SERVER_STORE_ADMIN_STORE_H_

#include "absl/status/statusor.h"

#include "server/store/admin_operations.h"
#include "server/store/reseal_operations.h"

namespace idempotency::internal {

// The records, for administrators: calls are rare, one at a time from their worker, and not in
// batches. What changes a record writes its entry of the audit log in the same transaction. Beside
// the failures named at each method: those of every operation (server/store/record_store.h). After
// STORE_UNAVAILABLE, repeating it is safe.
//
// Thread-safe. All block until the store has answered.
class AdminStore {
 public:
  virtual ~AdminStore() = default;

  // A page of the records that `op` selects, without their replies, in the order
  // of their places. Reads at most limits::kMaxListVisited records by an index, so a
  // page may have fewer records than its limit, or none, and yet a next one. Over a
  // pass no record appears twice, and every record that matched all the time appears.
  // A damaged record is left out, and counted: RecordStore::Get reports it. Not confirmed by a
  // standby.
  virtual absl::StatusOr<RecordPage> List(const ListOp& op) = 0;

  // Settles a record whose attempt cannot. A new token replaces that of the attempt:
  // neither it nor a recovery that began before writes any more.
  //   NOT_FOUND / RECORD_NOT_FOUND          As in RecordStore::Get
  //   FAILED_PRECONDITION / RECORD_CHANGED  Another state or attempt than expected,
  //                                         or neither RESERVED nor UNKNOWN
  //   FAILED_PRECONDITION / FORCE_REQUIRED  RESERVED under a live lease
  // A repetition finds the record settled in the same way: OK, and writes nothing.
  virtual absl::StatusOr<Resolution> Resolve(const ResolveOp& op) = 0;

  // One step of a purge, one transaction: examines the next `limit` records of the
  // target by an index, and forgets those that it may. For one record:
  //   NOT_FOUND / RECORD_NOT_FOUND          As in RecordStore::Get
  //   FAILED_PRECONDITION / FORCE_REQUIRED  It may run twice (NeedsForce)
  // Also removes forgotten records and tombstones of a scope.
  virtual absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) = 0;

  // One step of a reseal. Reads the next records of the namespace by an index, has op.sealer
  // seal their parts, and replaces those whose record still has the token, and the very part, that
  // was read. One transaction writes them, and one entry of the audit log for all. REQUEST_INVALID
  // without a sealer.
  virtual absl::StatusOr<ResealStep> Reseal(const ResealOp& op) = 0;

  // A page of the audit log. A store without an index of the entries of a record reads at most
  // limits::kMaxAuditVisited for them: a page may then have fewer than its limit, or none, and yet
  // a next one.
  virtual absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_ADMIN_STORE_H_
