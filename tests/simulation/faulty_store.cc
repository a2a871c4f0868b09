#include "tests/simulation/faulty_store.h"

namespace idempotency::internal::simulation {

SharedAnswers FaultyStore::CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                              absl::Span<const ReserveOp> reservations) {
  SharedAnswers answers;
  const bool completions_first = scheduler_.random().Chance(0.5);
  if (completions_first) answers.completions = Complete(completions);
  answers.verdicts = Reserve(reservations);
  if (!completions_first) answers.completions = Complete(completions);
  return answers;
}

absl::StatusOr<SweepProgress> FaultyStore::Sweep(const SweepOp& op) {
  scheduler_.Sleep(scheduler_.random().Between(100, 5000) * kMicrosecond);
  if (away_) return Unavailable();
  return store().Sweep(op);
}

}  // namespace idempotency::internal::simulation
