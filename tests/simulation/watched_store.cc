#include "tests/simulation/watched_store.h"

#include <variant>

namespace idempotency::internal::simulation {

void WatchedStore::LookAt(const RecordId& id) {
  const GetOp get{id, std::nullopt};
  checker_.OnRecord(id, store().Get({get}).front(), clock_.Now());
}

// As the store on Postgres: the first grants of new records, in a call that has only relaxed
// operations.
void WatchedStore::LogReservations(absl::Span<const ReserveOp> ops,
                                   std::vector<absl::StatusOr<Verdict>>& answers) {
  const bool relaxed =
      std::all_of(ops.begin(), ops.end(), [](const ReserveOp& op) { return op.relaxed; });
  bool durable = false;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!answers[i].ok()) continue;
    durable |= std::holds_alternative<OutcomeUnknown>(*answers[i]);
    auto* const reserved = std::get_if<Reserved>(&*answers[i]);
    if (reserved == nullptr || reserved->repeated) continue;
    reserved->relaxed = relaxed && reserved->attempt == 1 && !reserved->after_expiry;
    durable |= !reserved->relaxed;
    if (!reserved->relaxed) continue;
    journal_.Counted(Count::kGrantRelaxed);
    unflushed_.push_back(ops[i].key);
  }
  if (durable) unflushed_.clear();
}

void WatchedStore::Crash(Random& random) {
  journal_.Counted(Count::kStoreCrashed);
  if (unflushed_.empty()) return;
  const std::size_t kept = random.Below(unflushed_.size());
  for (std::size_t i = kept; i < unflushed_.size(); ++i) {
    journal_.Counted(Count::kReservationLostInCrash);
    journal_.Write("the store loses the reservation of %s", unflushed_[i].key.c_str());
    PurgeOp lost;
    lost.name_space = unflushed_[i].name_space;
    lost.key = unflushed_[i];
    lost.force = true;
    checker_.OnLost(RecordIdFor(unflushed_[i]));
    if (!store().Purge(lost).ok()) journal_.Broken("a reservation could not be lost");
  }
  unflushed_.clear();
}

absl::StatusOr<SweepProgress> WatchedStore::Sweep(const SweepOp& op) {
  auto progress = store().Sweep(op);
  if (progress.ok()) {
    journal_.Counted(Count::kSwept, static_cast<std::uint64_t>(progress->removed));
    const std::int64_t written = progress->removed + progress->marked_unknown + progress->entombed +
                                 progress->replies_dropped;
    if (written > 0) unflushed_.clear();
    for (const RecordId& id : checker_.Ids()) LookAt(id);
  }
  return progress;
}

}  // namespace idempotency::internal::simulation
