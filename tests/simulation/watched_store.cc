#include "tests/simulation/watched_store.h"

namespace idempotency::internal::simulation {

void WatchedStore::LookAt(const RecordId& id) {
  const GetOp get{id, std::nullopt};
  checker_.OnRecord(id, store().Get({get}).front(), clock_.Now());
}

absl::StatusOr<SweepProgress> WatchedStore::Sweep(const SweepOp& op) {
  auto progress = store().Sweep(op);
  if (progress.ok()) {
    journal_.Counted(Count::kSwept, static_cast<std::uint64_t>(progress->removed));
    for (const RecordId& id : checker_.Ids()) LookAt(id);
  }
  return progress;
}

}  // namespace idempotency::internal::simulation
