#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_ADMIN_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_ADMIN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "server/store/admin_operations.h"
#include "server/store/audit_hmac.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/record.h"
#include "server/store/postgres/records/unreadable_places.h"
#include "server/store/postgres/statements/batched.h"

namespace idempotency::internal {

// The administrator's operations on one connection, as in Store. What changes records is one
// statement with its entries of the audit log. Thread-compatible.
class BatchedAdmin {
 public:
  // All three outlive it.
  BatchedAdmin(PostgresConnection& connection, const PostgresStatements& statements,
               UnreadablePlaces& unreadable)
      : connection_(connection), statements_(statements), unreadable_(unreadable) {}

  absl::StatusOr<RecordPage> List(const ListOp& op);
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op);
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op);
  absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op);

 private:
  absl::StatusOr<PostgresResult> Walk(const ListOp& op, const RecordPlace& after, int limit);
  absl::StatusOr<RecordPage> Page(const ListOp& op, const RecordPlace& after, int limit);
  // The row of `id` and when it was read; nullopt if there is none.
  absl::StatusOr<std::optional<PostgresRecord>> Read(const RecordId& id);
  absl::StatusOr<PurgeStep> PurgeOne(const PurgeOp& op);
  absl::StatusOr<PurgeStep> PurgeWalk(const PurgeOp& op);
  // `parameters` are those before the range.
  absl::StatusOr<PurgeStep> PurgeNext(const PurgeOp& op, PostgresParameters parameters,
                                      const RecordPlace& after, int limit);

  PostgresConnection& connection_;
  const PostgresStatements& statements_;
  UnreadablePlaces& unreadable_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_ADMIN_H_
