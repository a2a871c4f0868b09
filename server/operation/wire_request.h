// A caller's request, checked field by field and converted to operations of the
// store. Failures are those of core/request_rules.h. Durations of records are
// cut to whole microseconds.
#ifndef IDEMPOTENCY_SERVER_OPERATION_WIRE_REQUEST_H_
#define IDEMPOTENCY_SERVER_OPERATION_WIRE_REQUEST_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "idempotency/v1/idempotency_service.pb.h"
#include "server/store/record_operations.h"

namespace idempotency::internal {

// `window` is how old an unknown UUIDv7 key may be. A lease that is not set is
// the default, or the retention if that is shorter.
absl::StatusOr<ReserveOp> ReserveOpFrom(const v1::ReserveRequest& request, absl::Duration window);
// The caller's maximum wait; zero if it is not set.
absl::StatusOr<absl::Duration> MaxWaitFrom(const v1::ReserveRequest& request);

// A reply over limits::kMaxReplyBytes is stored without its content.
absl::StatusOr<CompleteOp> CompleteOpFrom(const v1::CompleteRequest& request);
absl::StatusOr<ReleaseOp> ReleaseOpFrom(const v1::ReleaseRequest& request);
absl::StatusOr<ExtendOp> ExtendOpFrom(const v1::ExtendRequest& request);
// Also checks that the view is one.
absl::StatusOr<GetOp> GetOpFrom(const v1::GetRequest& request);

// The timeout of an operation of a session; infinite if it is not set.
absl::StatusOr<absl::Duration> TimeoutFrom(const v1::SessionOperation& operation);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_WIRE_REQUEST_H_
