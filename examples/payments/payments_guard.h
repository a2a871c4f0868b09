#ifndef IDEMPOTENCY_EXAMPLES_PAYMENTS_PAYMENTS_GUARD_H_
#define IDEMPOTENCY_EXAMPLES_PAYMENTS_PAYMENTS_GUARD_H_

#include <grpcpp/server_builder.h>

#include <memory>

#include "grpc_idempotency/server_guard/server_guard.h"

namespace payments {

// Registers the service in guarded form: payments.proto has the requirements of each method, and
// the flags --idempotencyd, --namespace, --scope and --lease have the address of idempotencyd, the
// scope of keys and the lease. Exits the process with status 1 if that fails: a server without its
// guard must not serve. The guard outlives the server.
std::unique_ptr<idempotency::ServerGuard> GuardOrExit(grpc::ServerBuilder& builder,
                                                      grpc::Service* payments);

}  // namespace payments

#endif  // IDEMPOTENCY_EXAMPLES_PAYMENTS_PAYMENTS_GUARD_H_
