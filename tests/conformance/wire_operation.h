// The store's operations as requests of a caller of the service, and its answers read back. Written
// against proto/idempotency/v1, independent of the service's own translation: a difference between
// the two fails a test.
//
// Requests omit defaults. An answer that lacks a field that the contract promises is INTERNAL, with
// no reason of the catalogue.
#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_OPERATION_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_OPERATION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "idempotency/v1/idempotency_service.pb.h"
#include "server/store/record_operations.h"

namespace idempotency::internal {

// Without the id, which the service computes, and the window, which it has itself.
v1::ReserveRequest RequestOf(const ReserveOp& op);
v1::CompleteRequest RequestOf(const CompleteOp& op);
v1::ReleaseRequest RequestOf(const ReleaseOp& op);
v1::ExtendRequest RequestOf(const ExtendOp& op);
// Everything of the record. By its key, if the operation has one.
v1::GetRequest RequestOf(const GetOp& op);

// Without the values that are only for counting. InFlight.retry_after stands for the remaining
// lease: the service must have no other bounds.
absl::StatusOr<Verdict> AnswerTo(const ReserveOp& op, const v1::ReserveResponse& response);
// Without lease_overrun and repeated.
absl::StatusOr<Completion> AnswerTo(const CompleteOp& op, const v1::CompleteResponse& response);
absl::Status AnswerTo(const ReleaseOp& op, const v1::ReleaseResponse& response);
absl::StatusOr<Extension> AnswerTo(const ExtendOp& op, const v1::ExtendResponse& response);
absl::StatusOr<Record> AnswerTo(const GetOp& op, const v1::GetResponse& response);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_WIRE_OPERATION_H_
