// Converts a stored reply to a gRPC one. Part of grpc_internals.cc.
#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_STORED_REPLY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_STORED_REPLY_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "google/protobuf/message_lite.h"

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/wire/sent_reply.h"

namespace idempotency::internal::grpc_internals {

// Sets metadata and compression level as the handler would have.
void SetMetadata(const SentReply& sent, grpc::ServerContextBase& context);

grpc::Status StatusOf(const v1::Reply& reply);

// Parses the stored bytes into `message`, for interceptors that read it, and makes gRPC send
// exactly these bytes for its address, until Unload. Bytes that do not parse (written by a
// newer build) are sent unchanged, and that is logged.
void Load(google::protobuf::MessageLite& message, std::shared_ptr<const std::string> body,
          GuardLog& log);
void Unload(const void* message);

}  // namespace idempotency::internal::grpc_internals

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_STORED_REPLY_H_
