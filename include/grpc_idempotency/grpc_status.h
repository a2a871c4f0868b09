// Converts between the catalogue's statuses and gRPC's. Thread-safe.
#ifndef GRPC_IDEMPOTENCY_GRPC_STATUS_H_
#define GRPC_IDEMPOTENCY_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace idempotency {

// Converts a number from the wire or from a store to a code: UNKNOWN if gRPC has no such code,
// as its specification requires of a client
// (https://github.com/grpc/grpc/blob/master/doc/statuscodes.md). A plain cast of an arbitrary
// number is undefined.
grpc::StatusCode StatusCodeFrom(int number);

// The name of the code, for example "NOT_FOUND"; "" for a number that is no code of gRPC's.
std::string StatusCodeName(grpc::StatusCode code);

// Keeps the code and the message; the catalogue's details become grpc-status-details-bin
// (google.rpc.Status with ErrorInfo, RetryInfo, BadRequest).
grpc::Status ToGrpcStatus(const absl::Status& status);
// The reverse: reason and details survive the round trip.
absl::Status FromGrpcStatus(const grpc::Status& status);

// True for the codes that a guard never records: CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, UNKNOWN
// and UNIMPLEMENTED. gRPC generates them whatever the handler did; UNIMPLEMENTED is what the
// callback API returns when a handler throws. INTERNAL, which gRPC generates too, can be recorded:
// handlers return it as an answer of their own. It cannot be released (MethodPolicy::released).
// For a client that gets one of these codes without a reason, the operation may have happened.
bool ProvesNothing(grpc::StatusCode code);

// True for the status that gRPC returns, without sending it, for a message over the channel's
// send limit (GRPC_ARG_MAX_SEND_MESSAGE_LENGTH).
bool IsOverSendLimit(const grpc::Status& status);
// True for the status with which gRPC ends a call whose reply is over a receive limit of the
// channel (GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, 4 MiB by default; for the metadata, with the
// status, its details and the trailers, GRPC_ARG_MAX_METADATA_SIZE, 8 KiB), or whose request is
// over the server's. The operation may have happened.
bool IsOverReceiveLimit(const grpc::Status& status);

// The value for the trailer grpc-retry-pushback-ms; nullopt if the error has no retry delay.
std::optional<std::string> PushbackOf(const absl::Status& status);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_GRPC_STATUS_H_
