#include "server/sealing/sealed_reply.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "idempotency/v1/record.pb.h"
#include "server/sealing/record_identity.h"
#include "server/sealing/sealed_box.h"
#include "server/sealing/secret.h"
#include "server/store/reply_envelope.h"

namespace idempotency::internal {
namespace {

static_assert(kBoxBytes == ReplyEnvelope::kBoxBytes);

absl::Status Damaged() {
  return MakeError(Reason::kRecordDamaged,
                   "the stored reply is damaged, or is that of another record; the operation will "
                   "not run again");
}

// One attempt's own key: so few boxes are made with it that their random nonces never meet.
void AttemptKey(const SealingKey& key, const ReplyOwner& owner, Secret& attempt_key) {
  key.replies().Expand(std::string(BytesOf(owner.id)).append(BytesOf(owner.token)), attempt_key);
}

std::string Associated(std::string_view use, const ReplyOwner& owner, std::string_view header,
                       std::string_view status = {}) {
  return RecordIdentity(use, owner.key, owner.id, {BytesOf(owner.token), header, status});
}

std::string OfStatus(const ReplyOwner& owner, std::string_view header) {
  return Associated("reply status", owner, header);
}

// With the status, so that neither part can be put beside another's.
std::string OfContent(const ReplyOwner& owner, std::string_view header, std::string_view status) {
  return Associated("reply content", owner, header, status);
}

EncodedReply Encoded(std::string bytes) {
  EncodedReply reply;
  reply.bytes = std::move(bytes);
  reply.digest = Sha256(reply.bytes);
  return reply;
}

}  // namespace

Sha256Digest KeyedReplyDigest(const SealingKey& key, const ReplyOwner& owner,
                              const EncodedReply& reply) {
  const std::string identity = RecordIdentity("reply digest", owner.key, owner.id);
  const std::string_view digest(reinterpret_cast<const char*>(reply.digest.data()),
                                reply.digest.size());
  return key.reply_digests().Sign({identity, BytesOf(owner.token), digest});
}

absl::StatusOr<EncodedReply> SealReply(const SealingKey& key, const ReplyOwner& owner,
                                       const EncodedReply& reply) {
  v1::Reply parsed;
  if (!parsed.ParseFromString(reply.bytes)) return Damaged();
  const std::string outcome = WithoutContent(parsed).SerializeAsString();
  Secret attempt_key;
  AttemptKey(key, owner, attempt_key);
  EncodedReply sealed;
  sealed.digest = KeyedReplyDigest(key, owner, reply);
  const std::size_t status_bytes = outcome.size() + kBoxBytes;
  const std::string header = EnvelopeHeader(key.id(), sealed.digest, status_bytes);
  sealed.bytes.reserve(header.size() + status_bytes + reply.bytes.size() + kBoxBytes);
  sealed.bytes = header;
  BoxKey box_key(attempt_key);
  box_key.Append(OfStatus(owner, header), outcome, sealed.bytes);
  const std::string status = sealed.bytes.substr(header.size());
  box_key.Append(OfContent(owner, header, status), reply.bytes, sealed.bytes);
  return sealed;
}

absl::StatusOr<EncodedReply> ResealReply(const KeyRing& ring, const SealingKey& key,
                                         const ReplyOwner& owner, const EncodedReply& stored) {
  const absl::StatusOr<EncodedReply> reply = OpenReply(ring, owner, stored);
  if (!reply.ok()) return reply.status();
  const absl::StatusOr<ReplyEnvelope> envelope = ReplyEnvelope::Parse(stored);
  if (!envelope.ok()) return envelope.status();
  if (envelope->content) return SealReply(key, owner, *reply);
  Secret attempt_key;
  AttemptKey(key, owner, attempt_key);
  const std::string header =
      EnvelopeHeader(key.id(), envelope->digest, reply->bytes.size() + kBoxBytes);
  std::string bytes = header;
  BoxKey(attempt_key).Append(OfStatus(owner, header), reply->bytes, bytes);
  return Encoded(std::move(bytes));
}

absl::StatusOr<EncodedReply> OpenReply(const KeyRing& ring, const ReplyOwner& owner,
                                       const EncodedReply& stored) {
  const absl::StatusOr<ReplyEnvelope> envelope = ReplyEnvelope::Parse(stored);
  if (!envelope.ok()) return envelope.status();
  const SealingKey* const key = ring.Find(envelope->key_id);
  if (key == nullptr) {
    return MakeError(Reason::kRecordDamaged,
                     absl::StrCat("the stored reply is sealed under key ", envelope->key_id,
                                  ", which the key ring does not have; put that key back. The "
                                  "operation will not run again"));
  }
  Secret attempt_key;
  AttemptKey(*key, owner, attempt_key);
  BoxKey box_key(attempt_key);
  std::optional<std::string> opened =
      envelope->content
          ? box_key.Open(OfContent(owner, envelope->header, envelope->status), *envelope->content)
          : box_key.Open(OfStatus(owner, envelope->header), envelope->status);
  if (!opened) return Damaged();
  return Encoded(*std::move(opened));
}

}  // namespace idempotency::internal
