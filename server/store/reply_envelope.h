#ifndef IDEMPOTENCY_SERVER_STORE_REPLY_ENVELOPE_H_
#define IDEMPOTENCY_SERVER_STORE_REPLY_ENVELOPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "core/sha256.h"
#include "grpc_idempotency/reply.h"

namespace idempotency::internal {

// The stored bytes of a sealed reply (docs/sealing.md). Its outcome and its content are sealed
// apart, so that a store can drop the content without opening anything:
//
//   header   0x00 'I' 'S' 0x01, the key's id (4 bytes), the keyed digest of the reply (32), the
//            length of the status box (4); big-endian
//   status   box: the reply without its content
//   content  box: the whole reply; missing once it was dropped
//
// No serialized message begins with 0x00. While the content is there, EncodedReply::digest is the
// digest of the header; afterwards it is the SHA-256 of what is left. So an envelope that was cut
// off behind the status is not taken for one whose content was dropped.
//
// Views into the bytes that were parsed.
struct ReplyEnvelope {
  static constexpr std::string_view kMagic = std::string_view("\0IS\x01", 4);
  static constexpr std::size_t kHeaderBytes = 4 + 4 + 32 + 4;
  // What sealing adds to the bytes of a box: the nonce before it, the tag behind it.
  static constexpr std::size_t kNonceBytes = 12;
  static constexpr std::size_t kTagBytes = 16;
  static constexpr std::size_t kBoxBytes = kNonceBytes + kTagBytes;

  std::uint32_t key_id = 0;
  Sha256Digest digest{};
  std::string_view header;
  std::string_view status;
  // nullopt: dropped.
  std::optional<std::string_view> content;

  // Whether the bytes are no reply that was stored unsealed.
  static bool IsSealed(std::string_view bytes) { return !bytes.empty() && bytes.front() == '\0'; }

  // DATA_LOSS / RECORD_DAMAGED for a sealed reply whose parts or digest do not fit together. That
  // they fit proves nothing to those without the key.
  static absl::StatusOr<ReplyEnvelope> Parse(const EncodedReply& stored);
};

// The header for a status box of this size.
std::string EnvelopeHeader(std::uint32_t key_id, const Sha256Digest& digest,
                           std::size_t status_bytes);

// WithoutContent() for a stored reply, sealed or not. DATA_LOSS / RECORD_DAMAGED for a damaged one;
// damage that only the key shows stays in what is left.
absl::StatusOr<EncodedReply> StoredWithoutContent(const EncodedReply& stored);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REPLY_ENVELOPE_H_
