// An administrator's request, checked field by field and converted to an operation of the store,
// as in wire_request.h. The actor is not part of a request.
#ifndef IDEMPOTENCY_SERVER_OPERATION_ADMIN_REQUEST_H_
#define IDEMPOTENCY_SERVER_OPERATION_ADMIN_REQUEST_H_

#include <optional>

#include "absl/status/statusor.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "idempotency/v1/admin_service.pb.h"
#include "server/store/admin_operations.h"
#include "server/store/reseal_operations.h"

namespace idempotency::internal {

absl::StatusOr<ListOp> ListOpFrom(const v1::ListRequest& request);
// `key` and `id` are those of the record, which the request may name by its id alone: see
// RecordOf().
absl::StatusOr<ResolveOp> ResolveOpFrom(const v1::ResolveRequest& request);
// Without `key`, if the target is one record.
absl::StatusOr<PurgeOp> PurgeOpFrom(const v1::PurgeRequest& request);
absl::StatusOr<ResealOp> ResealOpFrom(const v1::ResealRequest& request);
absl::StatusOr<AuditOp> AuditOpFrom(const v1::ListAuditRequest& request);

// The one record that a checked request is about: its key, or only its id. nullopt: a purge of
// many.
struct RecordTarget {
  std::optional<RecordKey> key;
  RecordId id;
};
std::optional<RecordTarget> RecordOf(const v1::ResolveRequest& request);
std::optional<RecordTarget> RecordOf(const v1::PurgeRequest& request);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_ADMIN_REQUEST_H_
