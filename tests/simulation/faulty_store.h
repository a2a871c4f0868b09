#ifndef IDEMPOTENCY_TESTS_SIMULATION_FAULTY_STORE_H_
#define IDEMPOTENCY_TESTS_SIMULATION_FAULTY_STORE_H_

#include <utility>
#include <vector>

#include "grpc_idempotency/errors.h"
#include "server/testing/store_decorator.h"
#include "tests/simulation/journal.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/scheduler.h"

namespace idempotency::internal::simulation {

// A daemon's access to the store: takes time, and fails before the operation happened, after it, or
// so that it happens later, when no caller expects it any more.
class FaultyStore final : public StoreDecorator<FaultyStore> {
 public:
  // All outlive it.
  FaultyStore(Store& store, Scheduler& scheduler, const Plan& plan, const bool& away,
              Journal& journal)
      : StoreDecorator(store), scheduler_(scheduler), plan_(plan), away_(away), journal_(journal) {}

  SharedAnswers CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                   absl::Span<const ReserveOp> reservations) override;
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override;

 private:
  friend class StoreDecorator<FaultyStore>;

  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind kind, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops);
  static absl::Status Unavailable() {
    return MakeError(Reason::kStoreUnavailable, "the store did not answer");
  }

  static constexpr Nanos kLatestEffect = 4 * kSecond;

  Scheduler& scheduler_;
  const Plan& plan_;
  // No call reaches it now.
  const bool& away_;
  Journal& journal_;
};

template <typename Op, typename Answer>
std::vector<Answer> FaultyStore::Around(OperationKind kind, StoreMethod<Op, Answer> method,
                                        absl::Span<const Op> ops) {
  // As a store does whose replies are too large for one call.
  const bool may_leave = kind == OperationKind::kReserve || kind == OperationKind::kGet;
  Random& random = scheduler_.random();
  scheduler_.Sleep(random.Between(100, 2000) * kMicrosecond);
  if (away_) {
    journal_.Counted(Count::kStoreFailedBefore);
    scheduler_.Sleep(random.Between(0, 1000) * kMillisecond);
    return std::vector<Answer>(ops.size(), Answer(Unavailable()));
  }
  // Some follow the fate of the whole call, some have one of their own.
  const bool whole = random.Chance(plan_.store_fails);
  std::vector<Answer> answers;
  std::vector<Op> passed;
  std::vector<std::size_t> places;
  std::vector<bool> unanswered(ops.size(), false);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    answers.push_back(Answer(Unavailable()));
    const std::uint64_t fault = whole || random.Chance(plan_.store_fails / 2) ? random.Below(3) : 3;
    if (may_leave && i > 0 && random.Chance(0.05)) {
      journal_.Counted(Count::kStoreLeftForNextCall);
      answers.back() = Answer(MakeError(Reason::kOverloaded, "left for the next call"));
    } else if (fault == 0) {
      journal_.Counted(Count::kStoreFailedBefore);
    } else if (fault == 1) {
      journal_.Counted(Count::kStoreHappenedLater);
      scheduler_.After(
          random.Between(1, kLatestEffect), nullptr,
          [store = &store(), method, op = ops[i]] { (store->*method)(absl::MakeSpan(&op, 1)); });
    } else {
      if (fault == 2) journal_.Counted(Count::kStoreFailedAfter);
      unanswered[i] = fault == 2;
      passed.push_back(ops[i]);
      places.push_back(i);
    }
  }
  if (!passed.empty()) {
    std::vector<Answer> given = (store().*method)(passed);
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!unanswered[places[i]]) answers[places[i]] = std::move(given[i]);
    }
  }
  scheduler_.Sleep(random.Between(50, 1000) * kMicrosecond +
                   (random.Chance(plan_.late) ? random.Between(0, 3 * kSecond) : 0));
  return answers;
}

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_FAULTY_STORE_H_
