#include "grpc_idempotency/server_guard/execution.h"

#include <memory>

#include "interceptors/server/call/guarded_call.h"
#include "interceptors/server/call/guarded_call_table.h"

namespace idempotency {

using internal::GuardedCall;
using internal::GuardedCallTable;

Execution* Execution::FromContext(grpc::ServerContextBase* context) {
  // The interceptor keeps the call until its reply is sent.
  const std::shared_ptr<GuardedCall> call = GuardedCallTable::Instance().Find(context);
  return call == nullptr ? nullptr : call->execution().get();
}

}  // namespace idempotency
