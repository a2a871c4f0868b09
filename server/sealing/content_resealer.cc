#include "server/sealing/content_resealer.h"

#include <set>
#include <utility>

#include "absl/status/statusor.h"

#include "core/request_rules.h"
#include "server/sealing/sealed_checkpoint.h"
#include "server/sealing/sealed_reply.h"
#include "server/store/reply_envelope.h"

namespace idempotency::internal {

ContentResealer::ContentResealer(std::shared_ptr<const KeyRing> ring, const SealingKey& sealing)
    : ring_(std::move(ring)), sealing_(sealing) {}

bool ContentResealer::IsEarlier(std::uint32_t key_id) const {
  const SealingKey* const key = ring_->Find(key_id);
  // A replica whose clock is ahead seals with a key that this one will use.
  return key == nullptr || (key != &sealing_ && key->seals_from() <= sealing_.seals_from());
}

std::uint32_t ContentResealer::Known(std::uint32_t key_id) const {
  return ring_->Find(key_id) == nullptr ? 0 : key_id;
}

ResealedContent ContentResealer::Reseal(const StoredContent& stored) {
  std::set<std::uint32_t> fingerprint_keys;
  for (const Fingerprint& fingerprint : stored.fingerprints) {
    fingerprint_keys.insert(Known(fingerprint.key_id));
  }
  for (const std::uint32_t key_id : fingerprint_keys) key_uses_[key_id].fingerprints += 1;

  ResealedContent after;
  Found found;
  if (stored.reply) ResealReplyOf(stored, after, found);
  if (!stored.checkpoint.empty()) ResealCheckpointOf(stored, after, found);
  for (const std::uint32_t key_id : found.keys) key_uses_[key_id].contents += 1;
  if (found.unsealed) unsealed_ += 1;
  if (found.damaged) damaged_.push_back(stored.id);
  const bool changes = after.reply || after.checkpoint;
  if (!changes && !found.unsealed && !found.damaged && !found.keys.empty()) current_ += 1;
  return after;
}

void ContentResealer::ResealReplyOf(const StoredContent& stored, ResealedContent& after,
                                    Found& found) const {
  if (!ReplyEnvelope::IsSealed(stored.reply->bytes)) {
    found.keys.insert(0);
    found.unsealed = true;
    return;
  }
  const absl::StatusOr<ReplyEnvelope> envelope = ReplyEnvelope::Parse(*stored.reply);
  if (!envelope.ok()) {
    found.damaged = true;
    return;
  }
  found.keys.insert(Known(envelope->key_id));
  if (!IsEarlier(envelope->key_id)) return;
  absl::StatusOr<EncodedReply> resealed =
      ResealReply(*ring_, sealing_, {stored.key, stored.id, stored.token}, *stored.reply);
  if (resealed.ok()) {
    after.reply = *std::move(resealed);
  } else {
    found.damaged = true;
  }
}

void ContentResealer::ResealCheckpointOf(const StoredContent& stored, ResealedContent& after,
                                         Found& found) const {
  if (!IsSealedCheckpoint(stored.checkpoint)) {
    found.keys.insert(0);
    found.unsealed = true;
    return;
  }
  const std::uint32_t key_id = KeyOfCheckpoint(stored.checkpoint);
  found.keys.insert(Known(key_id));
  if (!IsEarlier(key_id)) return;
  const absl::StatusOr<std::string> opened =
      OpenCheckpoint(*ring_, stored.key, stored.id, stored.checkpoint);
  if (opened.ok()) {
    after.checkpoint = SealCheckpoint(sealing_, stored.key, stored.id, *opened);
  } else {
    found.damaged = true;
  }
}

void ContentResealer::AddTo(ResealStep& step) const {
  step.current = current_;
  step.unsealed = unsealed_;
  step.damaged.insert(step.damaged.end(), damaged_.begin(), damaged_.end());
  step.sealing_key_id = sealing_.id();
  step.key_uses = key_uses_;
}

}  // namespace idempotency::internal
