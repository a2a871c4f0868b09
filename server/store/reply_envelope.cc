#include "server/store/reply_envelope.h"

#include <algorithm>

#include "core/length_prefix.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

constexpr std::size_t kKeyIdAt = 4;
constexpr std::size_t kDigestAt = 8;
constexpr std::size_t kStatusLengthAt = 40;

absl::Status Damaged() {
  return MakeError(Reason::kRecordDamaged,
                   "the stored reply is damaged; the operation will not run again");
}

}  // namespace

absl::StatusOr<ReplyEnvelope> ReplyEnvelope::Parse(const EncodedReply& stored) {
  const std::string_view bytes = stored.bytes;
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kMagic.size()) != kMagic) return Damaged();
  ReplyEnvelope envelope;
  envelope.header = bytes.substr(0, kHeaderBytes);
  envelope.key_id = ReadBigEndian32(bytes.substr(kKeyIdAt));
  std::copy_n(bytes.begin() + kDigestAt, envelope.digest.size(), envelope.digest.begin());
  const std::size_t status_bytes = ReadBigEndian32(bytes.substr(kStatusLengthAt));
  const std::string_view boxes = bytes.substr(kHeaderBytes);
  if (status_bytes < kBoxBytes || status_bytes > boxes.size()) return Damaged();
  envelope.status = boxes.substr(0, status_bytes);
  const std::string_view content = boxes.substr(status_bytes);
  if (content.empty()) {
    if (Sha256(bytes) != stored.digest) return Damaged();
    return envelope;
  }
  if (content.size() < kBoxBytes || envelope.digest != stored.digest) return Damaged();
  envelope.content = content;
  return envelope;
}

std::string EnvelopeHeader(std::uint32_t key_id, const Sha256Digest& digest,
                           std::size_t status_bytes) {
  std::string header(ReplyEnvelope::kMagic);
  AppendBigEndian32(key_id, header);
  header.append(digest.begin(), digest.end());
  AppendBigEndian32(static_cast<std::uint32_t>(status_bytes), header);
  return header;
}

absl::StatusOr<EncodedReply> StoredWithoutContent(const EncodedReply& stored) {
  if (!ReplyEnvelope::IsSealed(stored.bytes)) return WithoutContent(stored);
  const absl::StatusOr<ReplyEnvelope> envelope = ReplyEnvelope::Parse(stored);
  if (!envelope.ok()) return envelope.status();
  if (!envelope->content) return stored;
  EncodedReply rest;
  rest.bytes = std::string(envelope->header).append(envelope->status);
  rest.digest = Sha256(rest.bytes);
  return rest;
}

}  // namespace idempotency::internal
