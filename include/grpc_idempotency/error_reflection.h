#ifndef GRPC_IDEMPOTENCY_ERROR_REFLECTION_H_
#define GRPC_IDEMPOTENCY_ERROR_REFLECTION_H_

namespace idempotency {

// Makes google.rpc.ErrorInfo, RetryInfo and BadRequest known to server reflection
// in this process: grpcurl then prints the reason of an error, and its retry time,
// instead of base64. Call it once, before the first server is built.
//
// A library of its own (idempotency::error_reflection) that a program asks for:
// protobuf refuses a program that holds a file twice, so a program that links
// google/rpc/error_details.proto from elsewhere must not link this one, and needs
// it not.
void ReflectErrorDetails();

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_ERROR_REFLECTION_H_
