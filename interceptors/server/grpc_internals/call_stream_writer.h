// Messages sent through gRPC's core. Part of grpc_internals.cc.
#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_CALL_STREAM_WRITER_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_CALL_STREAM_WRITER_H_

#include <grpc/grpc.h>

#include <memory>

#include "core/grpc_headers.h"
#include "interceptors/server/call/stream_writer.h"

namespace idempotency::internal::grpc_internals {

// The writer of a call of the sync API: the thread that sends a message waits for it on the
// call's completion queue. The call outlives the sent messages: a status, which ends a call,
// goes through Drain.
std::shared_ptr<StreamWriter> MakeSyncStreamWriter(const grpc::internal::Call& call);
// For the callback API.
std::shared_ptr<StreamWriter> MakeCallbackStreamWriter(const grpc::internal::Call& call);

}  // namespace idempotency::internal::grpc_internals

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_CALL_STREAM_WRITER_H_
