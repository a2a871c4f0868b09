// What a stored reply needs to become a gRPC one. Part of grpc_internals.cc.
#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_STORED_REPLY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_STORED_REPLY_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>

#include "google/protobuf/message_lite.h"

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/log/guard_log.h"

namespace idempotency::internal::grpc_internals {

// Sets what the handler would have set: metadata and compression level.
void SetMetadata(const v1::Reply& reply, grpc::ServerContextBase& context);

grpc::Status StatusOf(const v1::Reply& reply);

// Fills `message` with the stored bytes, for interceptors that look at it, and
// has gRPC send exactly these bytes for its address, until Unload. Bytes that do
// not parse (a newer build wrote them) are sent as they are, and that is logged.
void Load(google::protobuf::MessageLite& message, std::string body, GuardLog& log);
void Unload(const void* message);

}  // namespace idempotency::internal::grpc_internals

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_STORED_REPLY_H_
