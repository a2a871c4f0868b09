#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_OPERATION_ADMISSION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_OPERATION_ADMISSION_H_

#include <functional>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

#include "grpc_idempotency/server_guard/begin_call.h"
#include "grpc_idempotency/server_guard/begun_operation.h"
#include "interceptors/server/admission/admission.h"
#include "interceptors/server/execution/guarded_operation.h"

namespace idempotency::internal {

// Converts a BeginCall to a request, and the decision to Begin's result: for
// ServerGuard::Begin, as GuardedMethod does for calls of a server.
class OperationAdmission {
 public:
  // Called once, on any thread, possibly inside Begin; must not block.
  using Done = std::function<void(absl::StatusOr<BegunOperation>)>;

  // `operation` has the settings of `call`.
  static void Begin(GuardedOperation operation, const BeginCall& call,
                    const google::protobuf::Message& request, Done done);

 private:
  static absl::StatusOr<BegunOperation> ToBegun(std::string record_id,
                                                Admission::Decision decision);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_OPERATION_ADMISSION_H_
