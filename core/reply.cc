#include "grpc_idempotency/reply.h"

#include <string>

#include "core/reply_decoding.h"
#include "core/sha256.h"
#include "core/utf8.h"
#include "grpc_idempotency/errors.h"

namespace idempotency {

using internal::Sha256;
using internal::ToUtf8;
using internal::Utf8Prefix;

namespace {

constexpr std::size_t kMaxMessageWithoutContentBytes = 1024;

}  // namespace

EncodedReply EncodeReply(const v1::Reply& reply) {
  EncodedReply encoded;
  encoded.bytes = reply.SerializeAsString();
  encoded.digest = Sha256(encoded.bytes);
  return encoded;
}

absl::StatusOr<v1::Reply> DecodeReply(const EncodedReply& encoded) {
  v1::Reply reply;
  if (absl::Status status = internal::DecodeReplyInto(encoded, reply); !status.ok()) return status;
  return reply;
}

absl::Status internal::DecodeReplyInto(const EncodedReply& encoded, v1::Reply& reply) {
  if (Sha256(encoded.bytes) == encoded.digest && reply.ParseFromString(encoded.bytes)) {
    return absl::OkStatus();
  }
  reply.Clear();
  return MakeError(Reason::kRecordDamaged,
                   "the stored reply is damaged; the operation will not run again");
}

std::size_t ReplyBytes(const v1::Reply& reply) { return reply.ByteSizeLong(); }

v1::Reply WithoutContent(const v1::Reply& reply) {
  v1::Reply rest;
  rest.set_code(reply.code());
  // With other bytes it would not parse again.
  const std::string message = ToUtf8(reply.message());
  rest.set_message(std::string(Utf8Prefix(message, kMaxMessageWithoutContentBytes)));
  rest.set_content(v1::REPLY_CONTENT_STATUS_ONLY);
  return rest;
}

absl::StatusOr<EncodedReply> WithoutContent(const EncodedReply& encoded) {
  const absl::StatusOr<v1::Reply> reply = DecodeReply(encoded);
  if (!reply.ok()) return reply.status();
  return EncodeReply(WithoutContent(*reply));
}

bool IsComplete(const v1::Reply& reply) {
  return reply.content() == v1::REPLY_CONTENT_UNSPECIFIED ||
         reply.content() == v1::REPLY_CONTENT_FULL;
}

}  // namespace idempotency
