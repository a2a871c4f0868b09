#include "server/sealing/sealed_store.h"

#include <algorithm>
#include <utility>

#include "grpc_idempotency/errors.h"
#include "server/sealing/content_resealer.h"
#include "server/sealing/sealed_held_connection.h"
#include "server/store/batch_weight.h"
#include "server/store/lost_reservation.h"

namespace idempotency::internal {

SealedStore::SealedStore(Store& store, std::shared_ptr<const KeyRingSource> rings,
                         const SealedStoreOptions& options)
    : ForwardingMaintenance(store), store_(store), rings_(std::move(rings)), options_(options) {}

SealedStore::SealedStore(std::unique_ptr<Store> store, std::shared_ptr<const KeyRingSource> rings,
                         const SealedStoreOptions& options)
    : ForwardingMaintenance(*store),
      owned_(std::move(store)),
      store_(*owned_),
      rings_(std::move(rings)),
      options_(options) {}

absl::Time SealedStore::Now() const {
  MutexLock lock(mutex_);
  latest_ = std::max(latest_, options_.clock->Now());
  return latest_;
}

Sealer SealedStore::NewSealer() const {
  return Sealer(rings_->Current(), Now(), options_.accept_unsealed);
}

std::vector<ReserveOp> SealedStore::SealAll(const Sealer& sealer, absl::Span<const ReserveOp> ops) {
  std::vector<ReserveOp> sealed;
  sealed.reserve(ops.size());
  for (const ReserveOp& op : ops) sealed.push_back(sealer.Seal(op));
  return sealed;
}

SealedStore::SealedCompletions SealedStore::SealAll(
    const Sealer& sealer, absl::Span<const CompleteOp> ops,
    std::vector<absl::StatusOr<Completion>>& answers) {
  SealedCompletions sealed;
  sealed.ops.reserve(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    absl::StatusOr<CompleteOp> op = sealer.Seal(ops[i]);
    if (!op.ok()) {
      answers[i] = op.status();
      continue;
    }
    sealed.ops.push_back(*std::move(op));
    sealed.indices.push_back(i);
  }
  return sealed;
}

std::vector<absl::StatusOr<Verdict>> SealedStore::Reserve(absl::Span<const ReserveOp> ops) {
  const Sealer sealer = NewSealer();
  std::vector<ReserveOp> sealed = SealAll(sealer, ops);
  std::vector<absl::StatusOr<Verdict>> answers = store_.Reserve(sealed);
  Finish(sealer, ops, sealed, answers);
  return answers;
}

void SealedStore::Finish(const Sealer& sealer, absl::Span<const ReserveOp> ops,
                         std::vector<ReserveOp>& sealed,
                         std::vector<absl::StatusOr<Verdict>>& answers) {
  ReserveUnderOthers(sealer, ops, sealed, answers);
  OpenAll(sealer, ops, answers);
}

std::unique_ptr<HeldConnection> SealedStore::Hold(std::function<void()> wanted) {
  std::unique_ptr<HeldConnection> connection = store_.Hold(std::move(wanted));
  if (connection == nullptr) return nullptr;
  return std::make_unique<SealedHeldConnection>(*this, std::move(connection));
}

std::vector<absl::StatusOr<Completion>> SealedStore::Complete(absl::Span<const CompleteOp> ops) {
  const Sealer sealer = NewSealer();
  std::vector<absl::StatusOr<Completion>> answers(ops.size());
  SealedCompletions sealed = SealAll(sealer, ops, answers);
  std::vector<absl::StatusOr<Completion>> stored = store_.Complete(sealed.ops);
  for (std::size_t i = 0; i < stored.size(); ++i) answers[sealed.indices[i]] = std::move(stored[i]);
  CompleteUnderOthers(sealer, ops, sealed, answers);
  return answers;
}

SharedAnswers SealedStore::CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                              absl::Span<const ReserveOp> reservations) {
  const Sealer sealer = NewSealer();
  SharedAnswers answers;
  answers.completions.resize(completions.size());
  SealedCompletions completed = SealAll(sealer, completions, answers.completions);
  std::vector<ReserveOp> reserved = SealAll(sealer, reservations);
  SharedAnswers stored = store_.CompleteAndReserve(completed.ops, reserved);
  for (std::size_t i = 0; i < stored.completions.size(); ++i) {
    answers.completions[completed.indices[i]] = std::move(stored.completions[i]);
  }
  answers.verdicts = std::move(stored.verdicts);
  CompleteUnderOthers(sealer, completions, completed, answers.completions);
  Finish(sealer, reservations, reserved, answers.verdicts);
  return answers;
}

void SealedStore::ReserveUnderOthers(const Sealer& sealer, absl::Span<const ReserveOp> ops,
                                     std::vector<ReserveOp>& sealed,
                                     std::vector<absl::StatusOr<Verdict>>& answers) {
  BatchWeight weight;
  for (const auto& answer : answers) weight.Add(answer);
  std::vector<ReserveOp> again;
  Indices indices;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ReasonOf(answers[i].status()) != Reason::kFingerprintUnknown) continue;
    // The first one is looked up in any case: batches with large replays may follow each other.
    if (weight.IsFull() && !again.empty()) {
      answers[i] = BatchWeight::NextCall();
    } else {
      sealed[i].compared_fingerprints = sealer.OtherFingerprints(ops[i]);
      again.push_back(std::move(sealed[i]));
      indices.push_back(i);
    }
  }
  if (again.empty()) return;
  if (sealer.HasOthers()) {
    std::vector<absl::StatusOr<Verdict>> decided = store_.Reserve(again);
    for (std::size_t i = 0; i < decided.size(); ++i) answers[indices[i]] = std::move(decided[i]);
  }
  Explain(sealer, ops, answers);
}

void SealedStore::Explain(const Sealer& sealer, absl::Span<const ReserveOp> ops,
                          std::vector<absl::StatusOr<Verdict>>& answers) {
  std::vector<GetOp> reads;
  Indices indices;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ReasonOf(answers[i].status()) != Reason::kFingerprintUnknown) continue;
    reads.push_back({ops[i].id, ops[i].key});
    indices.push_back(i);
  }
  if (reads.empty()) return;
  const std::vector<absl::StatusOr<Record>> records = store_.Get(reads);
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].ok()) {
      // Removed meanwhile: the next try is a first one.
      if (ReasonOf(records[i].status()) == Reason::kRecordNotFound) continue;
      answers[indices[i]] = records[i].status();
      continue;
    }
    const absl::Status comparable = sealer.CheckComparable(*records[i]);
    if (!comparable.ok()) answers[indices[i]] = comparable;
  }
}

void SealedStore::CompleteUnderOthers(const Sealer& sealer, absl::Span<const CompleteOp> ops,
                                      SealedCompletions& sealed,
                                      std::vector<absl::StatusOr<Completion>>& answers) {
  if (!sealer.HasOthers()) return;
  std::vector<CompleteOp> again;
  Indices indices;
  for (std::size_t i = 0; i < sealed.ops.size(); ++i) {
    const std::size_t index = sealed.indices[i];
    if (LossCauseOf(answers[index].status()) != LossCause::kCompleted) continue;
    sealed.ops[i].other_digests = sealer.OtherDigests(ops[index]);
    again.push_back(std::move(sealed.ops[i]));
    indices.push_back(index);
  }
  if (again.empty()) return;
  std::vector<absl::StatusOr<Completion>> decided = store_.Complete(again);
  for (std::size_t i = 0; i < decided.size(); ++i) answers[indices[i]] = std::move(decided[i]);
}

void SealedStore::OpenAll(const Sealer& sealer, absl::Span<const ReserveOp> ops,
                          std::vector<absl::StatusOr<Verdict>>& answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].ok()) answers[i] = sealer.Open(ops[i], *std::move(answers[i]));
  }
}

std::vector<absl::Status> SealedStore::Release(absl::Span<const ReleaseOp> ops) {
  return store_.Release(ops);
}

std::vector<absl::StatusOr<Extension>> SealedStore::Extend(absl::Span<const ExtendOp> ops) {
  const Sealer sealer = NewSealer();
  std::vector<ExtendOp> sealed;
  sealed.reserve(ops.size());
  for (const ExtendOp& op : ops) sealed.push_back(sealer.Seal(op));
  return store_.Extend(sealed);
}

std::vector<absl::StatusOr<Record>> SealedStore::Get(absl::Span<const GetOp> ops) {
  const Sealer sealer = NewSealer();
  std::vector<absl::StatusOr<Record>> answers = store_.Get(ops);
  for (absl::StatusOr<Record>& answer : answers) {
    if (answer.ok()) answer = sealer.Open(*std::move(answer));
  }
  return answers;
}

FingerprintMatch SealedStore::MatchRequest(const Record& record, const ReserveOp& op) const {
  return NewSealer().Match(record, op);
}

// Lists are without replies.
absl::StatusOr<RecordPage> SealedStore::List(const ListOp& op) { return store_.List(op); }

absl::StatusOr<Resolution> SealedStore::Resolve(const ResolveOp& op) {
  const Sealer sealer = NewSealer();
  absl::StatusOr<ResolveOp> sealed = sealer.Seal(op);
  if (!sealed.ok()) return sealed.status();
  absl::StatusOr<Resolution> answer = store_.Resolve(*sealed);
  if (!op.reply || ReasonOf(answer.status()) != Reason::kRecordChanged) return answer;
  // It may have been completed with this reply before, under the token of that settlement.
  const GetOp get{op.id, op.key};
  const absl::StatusOr<Record> record = std::move(store_.Get({&get, 1}).front());
  if (!record.ok() || record->state != RecordState::kCompleted) return answer;
  sealed->other_digests = sealer.AllDigests(op, record->token);
  return store_.Resolve(*sealed);
}

absl::StatusOr<PurgeStep> SealedStore::Purge(const PurgeOp& op) { return store_.Purge(op); }

absl::StatusOr<ResealStep> SealedStore::Reseal(const ResealOp& op) {
  const std::shared_ptr<const KeyRing> ring = rings_->Current();
  const SealingKey* const sealing = ring->SealsAt(Now());
  if (sealing == nullptr) {
    return MakeError(Reason::kRequestInvalid,
                     "no key of the key ring seals yet; `idempotencyctl keyring check` shows when "
                     "the first one does");
  }
  ContentResealer resealer(ring, *sealing);
  ResealOp with_keys = op;
  with_keys.sealer = &resealer;
  absl::StatusOr<ResealStep> step = store_.Reseal(with_keys);
  if (step.ok()) resealer.AddTo(*step);
  return step;
}

absl::StatusOr<AuditPage> SealedStore::ReadAudit(const AuditOp& op) { return store_.ReadAudit(op); }

}  // namespace idempotency::internal
