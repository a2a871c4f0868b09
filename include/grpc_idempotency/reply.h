#ifndef GRPC_IDEMPOTENCY_REPLY_H_
#define GRPC_IDEMPOTENCY_REPLY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency {

// A reply in its stored form: opaque bytes, and a SHA-256 that identifies the same reply sent
// again and a damaged stored one. A value type.
struct EncodedReply {
  std::string bytes;
  std::array<std::uint8_t, 32> digest{};

  friend bool operator==(const EncodedReply& a, const EncodedReply& b) {
    return a.digest == b.digest && a.bytes == b.bytes;
  }
};

EncodedReply EncodeReply(const v1::Reply& reply);
// The reply, or DATA_LOSS / RECORD_DAMAGED if the bytes do not match the digest or do not
// parse. The operation of a damaged record never runs again.
absl::StatusOr<v1::Reply> DecodeReply(const EncodedReply& encoded);

// The stored size of the reply, in bytes.
std::size_t ReplyBytes(const v1::Reply& reply);
// The same outcome without its content: code and a message cut to 1 KiB, with '?' for each byte
// that is not UTF-8; content STATUS_ONLY.
v1::Reply WithoutContent(const v1::Reply& reply);
// The same for an encoded reply. DATA_LOSS / RECORD_DAMAGED as in DecodeReply. A reply without
// content is returned unchanged.
absl::StatusOr<EncodedReply> WithoutContent(const EncodedReply& encoded);
// True if the reply has everything that the first caller got.
bool IsComplete(const v1::Reply& reply);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_REPLY_H_
