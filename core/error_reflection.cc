#include "grpc_idempotency/error_reflection.h"

#include "google/rpc/error_details.pb.h"

namespace idempotency {

// The linker omits unreferenced objects.
void ReflectErrorDetails() { google::rpc::ErrorInfo::descriptor(); }

}  // namespace idempotency
