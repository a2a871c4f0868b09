#ifndef IDEMPOTENCY_TESTS_SIMULATION_FAULTY_STORE_H_
#define IDEMPOTENCY_TESTS_SIMULATION_FAULTY_STORE_H_

#include <vector>

#include "server/store/store.h"
#include "server/testing/store_decorator.h"
#include "tests/simulation/journal.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/scheduler.h"

namespace idempotency::internal::simulation {

// A daemon's access to the store: takes time, and fails before the operation happened, after it, or
// so that it happens later, when no caller expects it any more.
class FaultyStore final : public StoreDecorator {
 public:
  // All outlive it.
  FaultyStore(Store& store, Scheduler& scheduler, const Plan& plan, const bool& away,
              Journal& journal)
      : StoreDecorator(store), scheduler_(scheduler), plan_(plan), away_(away), journal_(journal) {}

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  SharedAnswers CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                   absl::Span<const ReserveOp> reservations) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override;

 private:
  template <typename Op, typename Answer>
  std::vector<Answer> Ask(std::vector<Answer> (Store::*call)(absl::Span<const Op>),
                          absl::Span<const Op> ops, bool may_leave);

  Scheduler& scheduler_;
  const Plan& plan_;
  // No call reaches it now.
  const bool& away_;
  Journal& journal_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_FAULTY_STORE_H_
