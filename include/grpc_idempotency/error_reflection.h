#ifndef GRPC_IDEMPOTENCY_ERROR_REFLECTION_H_
#define GRPC_IDEMPOTENCY_ERROR_REFLECTION_H_

namespace idempotency {

// Registers google.rpc.ErrorInfo, RetryInfo and BadRequest with server reflection in this
// process: grpcurl then prints the reason of an error, and its retry time, instead of base64.
// Call it once, before the first server is built.
//
// This is a separate library (idempotency::error_reflection) that a program links explicitly.
// protobuf refuses a program that contains a file twice: a program that links
// google/rpc/error_details.proto from elsewhere must not link this library, and does not need
// it.
void ReflectErrorDetails();

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_ERROR_REFLECTION_H_
