#include "tests/simulation/watched_store.h"

#include <set>

#include "grpc_idempotency/limits.h"

namespace idempotency::internal::simulation {

template <typename Op>
void WatchedStore::CheckBatch(absl::Span<const Op> ops) {
  std::set<RecordId> ids;
  for (const Op& op : ops) {
    if (!ids.insert(op.id).second) journal_.Broken("a batch has two operations of one record");
  }
  if (ops.empty() || ops.size() > limits::kMaxBatch) journal_.Broken("a batch of a wrong size");
}

// The checker gets every decision of a call before any record is read: a read takes the store's
// lock, where another daemon may come first, or this one be killed.
template <typename Op, typename Answer>
void WatchedStore::Write(absl::Span<const Op> ops, const std::vector<Answer>& answers,
                         void (Checker::*told)(const Op&, const Answer&, absl::Time)) {
  for (std::size_t i = 0; i < ops.size(); ++i) (checker_.*told)(ops[i], answers[i], clock_.Now());
  for (const Op& op : ops) LookAt(op.id);
}

void WatchedStore::LookAt(const RecordId& id) {
  const GetOp get{id, std::nullopt};
  checker_.OnRecord(id, inner().Get({get}).front(), clock_.Now());
}

std::vector<absl::StatusOr<Verdict>> WatchedStore::Reserve(absl::Span<const ReserveOp> ops) {
  CheckBatch(ops);
  auto answers = inner().Reserve(ops);
  Write(ops, answers, &Checker::OnReserve);
  return answers;
}

std::vector<absl::StatusOr<Completion>> WatchedStore::Complete(absl::Span<const CompleteOp> ops) {
  CheckBatch(ops);
  auto answers = inner().Complete(ops);
  Write(ops, answers, &Checker::OnComplete);
  return answers;
}

std::vector<absl::Status> WatchedStore::Release(absl::Span<const ReleaseOp> ops) {
  CheckBatch(ops);
  auto answers = inner().Release(ops);
  Write(ops, answers, &Checker::OnRelease);
  return answers;
}

std::vector<absl::StatusOr<Extension>> WatchedStore::Extend(absl::Span<const ExtendOp> ops) {
  CheckBatch(ops);
  auto answers = inner().Extend(ops);
  Write(ops, answers, &Checker::OnExtend);
  return answers;
}

std::vector<absl::StatusOr<Record>> WatchedStore::Get(absl::Span<const GetOp> ops) {
  CheckBatch(ops);
  return inner().Get(ops);
}

absl::StatusOr<SweepProgress> WatchedStore::Sweep(const SweepOp& op) {
  auto progress = inner().Sweep(op);
  if (progress.ok()) {
    journal_.Counted(Count::kSwept, static_cast<std::uint64_t>(progress->removed));
    for (const RecordId& id : checker_.Ids()) LookAt(id);
  }
  return progress;
}

}  // namespace idempotency::internal::simulation
