// The store's operations as a caller of the service words them, and its answers
// read back. Written against proto/idempotency/v1, apart from the service's own
// translation: what the two disagree on fails a test.
//
// What is the default is left out of a request. An answer that lacks what the
// contract promises is INTERNAL, with no reason of the catalogue.
#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_OPERATION_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_OPERATION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "idempotency/v1/idempotency_service.pb.h"
#include "server/store/store.h"

namespace idempotency::internal {

// Without the id, which the service computes, and the window, which it has.
v1::ReserveRequest RequestOf(const ReserveOp& op);
v1::CompleteRequest RequestOf(const CompleteOp& op);
v1::ReleaseRequest RequestOf(const ReleaseOp& op);
v1::ExtendRequest RequestOf(const ExtendOp& op);
// Everything of the record. By its key, if the operation has one.
v1::GetRequest RequestOf(const GetOp& op);

// Without what is for counting only. InFlight.retry_after is taken for what is
// left of the lease: the service must have been given no other bounds.
absl::StatusOr<Verdict> AnswerTo(const ReserveOp& op, const v1::ReserveResponse& response);
// Without lease_overrun and repeated.
absl::StatusOr<Completion> AnswerTo(const CompleteOp& op, const v1::CompleteResponse& response);
absl::Status AnswerTo(const ReleaseOp& op, const v1::ReleaseResponse& response);
absl::StatusOr<Extension> AnswerTo(const ExtendOp& op, const v1::ExtendResponse& response);
absl::StatusOr<Record> AnswerTo(const GetOp& op, const v1::GetResponse& response);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_OPERATION_H_
