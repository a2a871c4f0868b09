// Stored replies of server-streaming calls. Part of grpc_internals.cc.
#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_STORED_STREAM_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_STORED_STREAM_H_

#include "google/protobuf/descriptor.h"

#include "core/grpc_headers.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/wire/sent_reply.h"

namespace idempotency::internal::grpc_internals {

// Answers a call instead of its handler: sends the stored messages, byte for byte and one after
// another, then the status. `type` is their type. Destroys the request, as the handler would
// have.
//
// For the sync API; returns when everything is sent.
void SendStoredStream(const grpc::internal::MethodHandler::HandlerParameter& parameter,
                      const google::protobuf::Descriptor& type, const SentReply& reply,
                      GuardLog& log);
// For the callback API; `type` and `log` outlive the call.
void StartStoredStream(const grpc::internal::MethodHandler::HandlerParameter& parameter,
                       const google::protobuf::Descriptor& type, SentReply reply, GuardLog& log);

}  // namespace idempotency::internal::grpc_internals

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_STORED_STREAM_H_
