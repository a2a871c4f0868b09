#include "server/sealing/sealer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "core/request_rules.h"
#include "core/sha256.h"
#include "grpc_idempotency/errors.h"
#include "server/sealing/keyed_fingerprint.h"
#include "server/sealing/sealed_checkpoint.h"
#include "server/sealing/sealed_reply.h"
#include "server/store/reply_envelope.h"
#include "server/store/same_request.h"

namespace idempotency::internal {
namespace {

absl::Status NotSealed(absl::string_view what) {
  return MakeError(Reason::kRecordDamaged,
                   absl::StrCat("the stored ", what,
                                " is not sealed, which this service does not accept "
                                "(--accept_unsealed); the operation will not run again"));
}

}  // namespace

Sealer::Sealer(std::shared_ptr<const KeyRing> ring, absl::Time now, bool accept_unsealed)
    : ring_(std::move(ring)), sealing_(ring_->SealsAt(now)), accept_unsealed_(accept_unsealed) {}

void Sealer::AppendUnder(const SealingKey& key, const ReserveOp& op,
                         std::vector<Fingerprint>& out) const {
  if (!namespace_key_ || namespace_key_->from != &key ||
      namespace_key_->name_space != op.key.name_space) {
    namespace_key_.emplace(
        NamespaceKey{&key, op.key.name_space, KeyOfNamespace(key, op.key.name_space)});
  }
  const FingerprintKey keyed(key, namespace_key_->key, op.key, op.id);
  for (const Fingerprint& fingerprint : op.fingerprints) out.push_back(keyed.Apply(fingerprint));
}

ReserveOp Sealer::Seal(const ReserveOp& op) const {
  ReserveOp sealed = op;
  if (sealing_ == nullptr) return sealed;
  sealed.fingerprints.clear();
  AppendUnder(*sealing_, op, sealed.fingerprints);
  return sealed;
}

absl::StatusOr<CompleteOp> Sealer::Seal(const CompleteOp& op) const {
  if (sealing_ == nullptr) return op;
  absl::StatusOr<EncodedReply> reply = SealReply(*sealing_, {op.key, op.id, op.token}, op.reply);
  if (!reply.ok()) return reply.status();
  return CompleteOp{op.key, op.id, op.token, *std::move(reply)};
}

absl::StatusOr<ResolveOp> Sealer::Seal(const ResolveOp& op) const {
  if (sealing_ == nullptr || !op.reply) return op;
  absl::StatusOr<EncodedReply> reply = SealReply(*sealing_, {op.key, op.id, op.token}, *op.reply);
  if (!reply.ok()) return reply.status();
  ResolveOp sealed = op;
  sealed.reply = *std::move(reply);
  return sealed;
}

ExtendOp Sealer::Seal(const ExtendOp& op) const {
  ExtendOp sealed = op;
  if (sealing_ != nullptr && op.checkpoint) {
    sealed.checkpoint = SealCheckpoint(*sealing_, op.key, op.id, *op.checkpoint);
  }
  return sealed;
}

bool Sealer::HasOthers() const {
  return ring_->keys().size() > (sealing_ == nullptr ? 0U : 1U) || accept_unsealed_;
}

std::vector<Fingerprint> Sealer::OtherFingerprints(const ReserveOp& op) const {
  std::vector<Fingerprint> others;
  for (const auto& key : ring_->keys()) {
    if (key.get() != sealing_) AppendUnder(*key, op, others);
  }
  if (accept_unsealed_) others.insert(others.end(), op.fingerprints.begin(), op.fingerprints.end());
  return others;
}

std::vector<Sha256Digest> Sealer::OtherDigests(const CompleteOp& op) const {
  std::vector<Sha256Digest> others;
  const ReplyOwner owner{op.key, op.id, op.token};
  for (const auto& key : ring_->keys()) {
    if (key.get() != sealing_) others.push_back(KeyedReplyDigest(*key, owner, op.reply));
  }
  if (accept_unsealed_) others.push_back(op.reply.digest);
  return others;
}

std::vector<Sha256Digest> Sealer::AllDigests(const ResolveOp& op, const Uuid& token) const {
  std::vector<Sha256Digest> all;
  for (const auto& key : ring_->keys()) {
    all.push_back(KeyedReplyDigest(*key, {op.key, op.id, token}, *op.reply));
  }
  if (accept_unsealed_) all.push_back(op.reply->digest);
  return all;
}

absl::StatusOr<Verdict> Sealer::Open(const ReserveOp& op, Verdict verdict) const {
  if (auto* const replay = std::get_if<Replay>(&verdict)) {
    absl::StatusOr<EncodedReply> reply =
        OpenReply(op.key, op.id, replay->token, std::move(replay->reply));
    if (!reply.ok()) return reply.status();
    replay->reply = *std::move(reply);
  } else if (auto* const reserved = std::get_if<Reserved>(&verdict)) {
    absl::StatusOr<std::string> checkpoint = OpenCheckpoint(op, std::move(reserved->checkpoint));
    if (!checkpoint.ok()) return checkpoint.status();
    reserved->checkpoint = *std::move(checkpoint);
  }
  return verdict;
}

absl::StatusOr<Record> Sealer::Open(Record record) const {
  if (!record.reply) return record;
  absl::StatusOr<EncodedReply> reply =
      OpenReply(record.key, record.id, record.token, *std::move(record.reply));
  if (!reply.ok()) return reply.status();
  record.reply = *std::move(reply);
  return record;
}

absl::StatusOr<EncodedReply> Sealer::OpenReply(const RecordKey& key, const RecordId& id,
                                               const Uuid& token, EncodedReply stored) const {
  if (ReplyEnvelope::IsSealed(stored.bytes)) {
    return internal::OpenReply(*ring_, {key, id, token}, stored);
  }
  if (!accept_unsealed_) return NotSealed("reply");
  // Also what is left of a sealed one, whose digest has a key.
  if (Sha256(stored.bytes) != stored.digest) {
    return MakeError(Reason::kRecordDamaged,
                     "the stored reply is damaged; the operation will not run again");
  }
  return stored;
}

absl::StatusOr<std::string> Sealer::OpenCheckpoint(const ReserveOp& op, std::string stored) const {
  // There is none.
  if (stored.empty()) return stored;
  if (IsSealedCheckpoint(stored)) return internal::OpenCheckpoint(*ring_, op.key, op.id, stored);
  if (!accept_unsealed_) return NotSealed("checkpoint");
  return stored;
}

FingerprintMatch Sealer::Match(const Record& record, const ReserveOp& op) const {
  ReserveOp compared;
  for (const auto& key : ring_->keys()) {
    const bool compares =
        std::any_of(record.fingerprints.begin(), record.fingerprints.end(),
                    [&key](const Fingerprint& stored) { return stored.key_id == key->id(); });
    if (compares) AppendUnder(*key, op, compared.fingerprints);
  }
  for (const Fingerprint& sent : op.fingerprints) {
    if (accept_unsealed_ || sent.key_id != 0) compared.fingerprints.push_back(sent);
  }
  return CompareRequest(record.fingerprints, compared);
}

absl::Status Sealer::CheckComparable(const Record& record) const {
  for (const Fingerprint& fingerprint : record.fingerprints) {
    if (fingerprint.key_id == 0) {
      if (!accept_unsealed_) return NotSealed("fingerprint");
    } else if (ring_->Find(fingerprint.key_id) == nullptr) {
      return MakeError(Reason::kRecordDamaged,
                       absl::StrCat("the stored fingerprint is under key ", fingerprint.key_id,
                                    ", which the key ring does not have; put that key back. The "
                                    "operation will not run again"));
    }
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal
