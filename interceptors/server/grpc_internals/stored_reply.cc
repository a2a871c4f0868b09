#include "interceptors/server/grpc_internals/stored_reply.h"

#include <grpc/grpc.h>

#include <memory>
#include <utility>

#include "grpc_idempotency/grpc_status.h"
#include "interceptors/server/grpc_internals/any_message.h"

namespace idempotency::internal::grpc_internals {
namespace {

// gRPC aborts the process on metadata that is invalid on the wire, and a record may have been
// settled manually.
bool IsLegal(const std::string& name, const std::string& text) {
  const grpc_slice key = grpc_slice_from_static_buffer(name.data(), name.size());
  const grpc_slice value = grpc_slice_from_static_buffer(text.data(), text.size());
  return grpc_header_key_is_legal(key) != 0 &&
         (grpc_is_binary_header(key) != 0 || grpc_header_nonbin_value_is_legal(value) != 0);
}

}  // namespace

// Calls ServerContextBase's own setters, as the handler would have done.
void SetMetadata(const SentReply& sent, grpc::ServerContextBase& context) {
  const v1::Reply& reply = sent.stored();
  for (const v1::MetadataEntry& entry : reply.initial_metadata()) {
    if (IsLegal(entry.key(), entry.value())) {
      context.AddInitialMetadata(entry.key(), entry.value());
    }
  }
  for (const v1::MetadataEntry& entry : reply.trailing_metadata()) {
    if (IsLegal(entry.key(), entry.value())) {
      context.AddTrailingMetadata(entry.key(), entry.value());
    }
  }
  for (const auto& [key, value] : sent.trailers()) context.AddTrailingMetadata(key, value);
  if (reply.has_compression_level() && reply.compression_level() >= 0 &&
      reply.compression_level() < GRPC_COMPRESS_LEVEL_COUNT) {
    context.set_compression_level(static_cast<grpc_compression_level>(reply.compression_level()));
  }
}

grpc::Status StatusOf(const v1::Reply& reply) {
  return grpc::Status(StatusCodeFrom(reply.code()), reply.message(), reply.details());
}

void Load(google::protobuf::MessageLite& message, std::shared_ptr<const std::string> body,
          GuardLog& log) {
  if (!message.ParsePartialFromString(*body)) {
    log.Warn(LogEvent::kUnreadableReply, "a stored reply does not parse as ", message.GetTypeName(),
             ": it is sent as it is");
  }
  StoredBytes::Instance().Put(&message, std::move(body));
}

void Unload(const void* message) { StoredBytes::Instance().Remove(message); }

}  // namespace idempotency::internal::grpc_internals
