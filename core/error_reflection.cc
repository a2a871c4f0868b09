#include "grpc_idempotency/error_reflection.h"

#include "google/rpc/error_details.pb.h"

namespace idempotency {

// The linker leaves out what nobody asks for.
void ReflectErrorDetails() { google::rpc::ErrorInfo::descriptor(); }

}  // namespace idempotency
