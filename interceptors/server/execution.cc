#include "grpc_idempotency/server_guard/execution.h"

#include <memory>

#include "interceptors/server/call/call_table.h"
#include "interceptors/server/call/guarded_call.h"

namespace idempotency {

using internal::CallTable;
using internal::GuardedCall;

Execution* Execution::FromContext(grpc::ServerContextBase* context) {
  // The interceptor keeps the call until its reply has been sent.
  const std::shared_ptr<GuardedCall> call = CallTable::Instance().Find(context);
  return call == nullptr ? nullptr : call->execution().get();
}

}  // namespace idempotency
