#include "tests/simulation/watched_store.h"

#include <set>

#include "core/limits.h"

namespace idempotency::simulation {

template <typename Op>
void WatchedStore::CheckBatch(absl::Span<const Op> ops) {
  std::set<RecordId> ids;
  for (const Op& op : ops) {
    if (!ids.insert(op.id).second) journal_.Broken("a batch has two operations of one record");
  }
  if (ops.empty() || ops.size() > limits::kMaxBatch) journal_.Broken("a batch of a wrong size");
}

void WatchedStore::LookAt(const RecordId& id) {
  const GetOp get{id, std::nullopt};
  checker_.OnRecord(id, store_.Get({get}).front(), clock_.Now());
}

std::vector<absl::StatusOr<Verdict>> WatchedStore::Reserve(absl::Span<const ReserveOp> ops) {
  CheckBatch(ops);
  auto answers = store_.Reserve(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    checker_.OnReserve(ops[i], answers[i], clock_.Now());
    LookAt(ops[i].id);
  }
  return answers;
}

std::vector<absl::StatusOr<Completion>> WatchedStore::Complete(absl::Span<const CompleteOp> ops) {
  CheckBatch(ops);
  auto answers = store_.Complete(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    checker_.OnComplete(ops[i], answers[i], clock_.Now());
    LookAt(ops[i].id);
  }
  return answers;
}

std::vector<absl::Status> WatchedStore::Release(absl::Span<const ReleaseOp> ops) {
  CheckBatch(ops);
  auto answers = store_.Release(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    checker_.OnRelease(ops[i], answers[i], clock_.Now());
    LookAt(ops[i].id);
  }
  return answers;
}

std::vector<absl::StatusOr<Extension>> WatchedStore::Extend(absl::Span<const ExtendOp> ops) {
  CheckBatch(ops);
  auto answers = store_.Extend(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    checker_.OnExtend(ops[i], answers[i], clock_.Now());
    LookAt(ops[i].id);
  }
  return answers;
}

std::vector<absl::StatusOr<Record>> WatchedStore::Get(absl::Span<const GetOp> ops) {
  CheckBatch(ops);
  return store_.Get(ops);
}

absl::StatusOr<SweepProgress> WatchedStore::Sweep(const SweepOp& op) {
  auto progress = store_.Sweep(op);
  if (progress.ok()) {
    journal_.Counted(Count::kSwept, static_cast<std::uint64_t>(progress->removed));
    for (const RecordId& id : checker_.Ids()) LookAt(id);
  }
  return progress;
}

}  // namespace idempotency::simulation
