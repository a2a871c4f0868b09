#ifndef IDEMPOTENCY_TESTS_SIMULATION_WATCHED_STORE_H_
#define IDEMPOTENCY_TESTS_SIMULATION_WATCHED_STORE_H_

#include <algorithm>
#include <set>
#include <type_traits>
#include <vector>

#include "core/clock.h"
#include "server/store/limits.h"
#include "server/testing/store_decorator.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/random.h"

namespace idempotency::internal::simulation {

// The store of a run, which all daemons share, with the checker at its side.
class WatchedStore final : public StoreDecorator<WatchedStore> {
 public:
  // All outlive it. `clock` is the store's.
  WatchedStore(Store& store, const Clock& clock, Checker& checker, Journal& journal)
      : StoreDecorator(store), clock_(clock), checker_(checker), journal_(journal) {}

  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override;

  // The store crashes, and loses the end of its log that it had not flushed: of the reservations
  // after the last durable write, the last ones.
  void Crash(Random& random);
  bool CrashWouldLose() const { return !unflushed_.empty(); }

 private:
  friend class StoreDecorator<WatchedStore>;

  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind kind, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops);
  template <typename Op>
  void CheckBatch(absl::Span<const Op> ops);
  void Report(const ReserveOp& op, const absl::StatusOr<Verdict>& answer) {
    checker_.OnReserve(op, answer, clock_.Now());
  }
  void Report(const CompleteOp& op, const absl::StatusOr<Completion>& answer) {
    checker_.OnComplete(op, answer, clock_.Now());
  }
  void Report(const ReleaseOp& op, const absl::Status& answer) {
    checker_.OnRelease(op, answer, clock_.Now());
  }
  void Report(const ExtendOp& op, const absl::StatusOr<Extension>& answer) {
    checker_.OnExtend(op, answer, clock_.Now());
  }
  void LookAt(const RecordId& id);
  // The content of the log after a call. A durable write also makes all before it durable.
  template <typename Op, typename Answer>
  void Log(absl::Span<const Op> ops, std::vector<Answer>& answers);
  void LogReservations(absl::Span<const ReserveOp> ops,
                       std::vector<absl::StatusOr<Verdict>>& answers);

  // Relaxed reservations, in the order of their commits.
  std::vector<RecordKey> unflushed_;
  const Clock& clock_;
  Checker& checker_;
  Journal& journal_;
};

template <typename Op>
void WatchedStore::CheckBatch(absl::Span<const Op> ops) {
  std::set<RecordId> ids;
  for (const Op& op : ops) {
    if (!ids.insert(op.id).second) journal_.Broken("a batch has two operations of one record");
  }
  if (ops.empty() || ops.size() > limits::kMaxBatch) journal_.Broken("a batch of a wrong size");
}

template <typename Op, typename Answer>
void WatchedStore::Log(absl::Span<const Op> ops, std::vector<Answer>& answers) {
  if constexpr (std::is_same_v<Op, ReserveOp>) {
    LogReservations(ops, answers);
  } else if (std::any_of(answers.begin(), answers.end(),
                         [](const Answer& answer) { return answer.ok(); })) {
    unflushed_.clear();
  }
}

// The checker gets every decision of a call before any record is read: a read takes the store's
// lock, where another daemon may come first, or this one be killed.
template <typename Op, typename Answer>
std::vector<Answer> WatchedStore::Around(OperationKind /*kind*/, StoreMethod<Op, Answer> method,
                                         absl::Span<const Op> ops) {
  CheckBatch(ops);
  std::vector<Answer> answers = (store().*method)(ops);
  if constexpr (!std::is_same_v<Op, GetOp>) {
    Log(ops, answers);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      Report(ops[i], answers[i]);
    }
    for (const Op& op : ops) LookAt(op.id);
  }
  return answers;
}

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_WATCHED_STORE_H_
