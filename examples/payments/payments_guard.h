#ifndef IDEMPOTENCY_EXAMPLES_PAYMENTS_PAYMENTS_GUARD_H_
#define IDEMPOTENCY_EXAMPLES_PAYMENTS_PAYMENTS_GUARD_H_

#include <grpcpp/server_builder.h>

#include <memory>

#include "grpc_idempotency/server_guard/server_guard.h"

namespace payments {

// Registers the service in guarded form: what a method's calls must carry is
// in payments.proto, where idempotencyd is and whose keys they are in the
// flags --idempotencyd, --namespace, --scope and --lease. Ends the process with
// status 1 if that cannot work: a server without its guard must not serve. The
// guard outlives the server.
std::unique_ptr<idempotency::ServerGuard> GuardOrExit(grpc::ServerBuilder& builder,
                                                      grpc::Service* payments);

}  // namespace payments

#endif  // IDEMPOTENCY_EXAMPLES_PAYMENTS_PAYMENTS_GUARD_H_
