#include "tests/simulation/faulty_store.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal::simulation {
namespace {

constexpr Nanos kLatestEffect = 4 * kSecond;

absl::Status Unknown() { return MakeError(Reason::kStoreUnavailable, "the store did not answer"); }

absl::Status LeftForNextCall() { return MakeError(Reason::kOverloaded, "left for the next call"); }

}  // namespace

template <typename Op, typename Answer>
std::vector<Answer> FaultyStore::Ask(std::vector<Answer> (Store::*call)(absl::Span<const Op>),
                                     absl::Span<const Op> ops, bool may_leave) {
  Random& random = scheduler_.random();
  scheduler_.Sleep(random.Between(100, 2000) * kMicrosecond);
  if (away_) {
    journal_.Counted(Count::kStoreFailedBefore);
    scheduler_.Sleep(random.Between(0, 1000) * kMillisecond);
    return std::vector<Answer>(ops.size(), Answer(Unknown()));
  }
  // Some follow the fate of the whole call, some have one of their own.
  const bool whole = random.Chance(plan_.store_fails);
  std::vector<Answer> answers;
  std::vector<Op> asked;
  std::vector<std::size_t> places;
  std::vector<bool> unheard(ops.size(), false);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    answers.push_back(Answer(Unknown()));
    const std::uint64_t fault = whole || random.Chance(plan_.store_fails / 2) ? random.Below(3) : 3;
    if (may_leave && i > 0 && random.Chance(0.05)) {
      journal_.Counted(Count::kStoreLeftForNextCall);
      answers.back() = Answer(LeftForNextCall());
    } else if (fault == 0) {
      journal_.Counted(Count::kStoreFailedBefore);
    } else if (fault == 1) {
      journal_.Counted(Count::kStoreHappenedLater);
      scheduler_.After(
          random.Between(1, kLatestEffect), nullptr,
          [store = &inner(), call, op = ops[i]] { (store->*call)(absl::MakeSpan(&op, 1)); });
    } else {
      if (fault == 2) journal_.Counted(Count::kStoreFailedAfter);
      unheard[i] = fault == 2;
      asked.push_back(ops[i]);
      places.push_back(i);
    }
  }
  if (!asked.empty()) {
    std::vector<Answer> given = (inner().*call)(asked);
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!unheard[places[i]]) answers[places[i]] = std::move(given[i]);
    }
  }
  scheduler_.Sleep(random.Between(50, 1000) * kMicrosecond +
                   (random.Chance(plan_.late) ? random.Between(0, 3 * kSecond) : 0));
  return answers;
}

std::vector<absl::StatusOr<Verdict>> FaultyStore::Reserve(absl::Span<const ReserveOp> ops) {
  return Ask(&Store::Reserve, ops, /*may_leave=*/true);
}

std::vector<absl::StatusOr<Completion>> FaultyStore::Complete(absl::Span<const CompleteOp> ops) {
  return Ask(&Store::Complete, ops, /*may_leave=*/false);
}

SharedAnswers FaultyStore::CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                              absl::Span<const ReserveOp> reservations) {
  SharedAnswers answers;
  const bool completions_first = scheduler_.random().Chance(0.5);
  if (completions_first) answers.completions = Complete(completions);
  answers.verdicts = Reserve(reservations);
  if (!completions_first) answers.completions = Complete(completions);
  return answers;
}

std::vector<absl::Status> FaultyStore::Release(absl::Span<const ReleaseOp> ops) {
  return Ask(&Store::Release, ops, /*may_leave=*/false);
}

std::vector<absl::StatusOr<Extension>> FaultyStore::Extend(absl::Span<const ExtendOp> ops) {
  return Ask(&Store::Extend, ops, /*may_leave=*/false);
}

std::vector<absl::StatusOr<Record>> FaultyStore::Get(absl::Span<const GetOp> ops) {
  return Ask(&Store::Get, ops, /*may_leave=*/true);
}

absl::StatusOr<SweepProgress> FaultyStore::Sweep(const SweepOp& op) {
  scheduler_.Sleep(scheduler_.random().Between(100, 5000) * kMicrosecond);
  if (away_) return Unknown();
  return inner().Sweep(op);
}

}  // namespace idempotency::internal::simulation
