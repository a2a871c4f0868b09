// Messages sent through gRPC's core. Part of grpc_internals.cc.
#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_CALL_OUTLET_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_CALL_OUTLET_H_

#include <grpc/grpc.h>
#include <grpcpp/impl/codegen/call.h>

#include <memory>

#include "interceptors/server/call/stream_outlet.h"

namespace idempotency::internal::grpc_internals {

// The outlet of a call of the sync API, whose completion queue is asked for
// each message by the thread that sends it. The call outlives what is sent: a
// status, which ends a call, goes through Drain.
std::shared_ptr<StreamOutlet> MakeSyncOutlet(const grpc::internal::Call& call);
// Of the callback API.
std::shared_ptr<StreamOutlet> MakeCallbackOutlet(const grpc::internal::Call& call);

}  // namespace idempotency::internal::grpc_internals

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_CALL_OUTLET_H_
