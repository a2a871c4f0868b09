#ifndef IDEMPOTENCY_TESTS_SIMULATION_WATCHED_STORE_H_
#define IDEMPOTENCY_TESTS_SIMULATION_WATCHED_STORE_H_

#include <vector>

#include "core/clock.h"
#include "server/store/store.h"
#include "server/testing/store_decorator.h"
#include "tests/simulation/checker.h"

namespace idempotency::internal::simulation {

// The store of a run, which all daemons share, with the checker at its side.
class WatchedStore final : public StoreDecorator {
 public:
  // All outlive it. `clock` is the store's.
  WatchedStore(Store& store, const Clock& clock, Checker& checker, Journal& journal)
      : StoreDecorator(store), clock_(clock), checker_(checker), journal_(journal) {}

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override;

 private:
  template <typename Op>
  void CheckBatch(absl::Span<const Op> ops);
  template <typename Op, typename Answer>
  void Write(absl::Span<const Op> ops, const std::vector<Answer>& answers,
             void (Checker::*told)(const Op&, const Answer&, absl::Time));
  void LookAt(const RecordId& id);

  const Clock& clock_;
  Checker& checker_;
  Journal& journal_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_WATCHED_STORE_H_
