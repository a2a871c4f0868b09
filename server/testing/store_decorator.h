#ifndef IDEMPOTENCY_SERVER_TESTING_STORE_DECORATOR_H_
#define IDEMPOTENCY_SERVER_TESTING_STORE_DECORATOR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/observability/observer.h"
#include "server/store/store.h"

namespace idempotency::internal {

// A Store in front of another, for tests: each batch passes one hook of `Derived`, which sees its
// operations before the other store and its answers before the caller:
//
//   template <typename Op, typename Answer>
//   std::vector<Answer> Around(OperationKind kind, StoreMethod<Op, Answer> method,
//                              absl::Span<const Op> ops) {
//     return (store().*method)(ops);
//   }
//
// A batch of CompleteAndReserve() passes it twice, unless `Derived` overrides that. Sweep(),
// Inspect() and the administrators' methods are passed on. Hold() is not, so that no call passes
// the hook by: a decorated store has no held connections. As thread-safe as the hook.
template <typename Derived>
class StoreDecorator : public Store {
 public:
  // `store` outlives this.
  explicit StoreDecorator(Store& store) : store_(store) {}

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override {
    return derived().Around(OperationKind::kReserve, &Store::Reserve, ops);
  }
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override {
    return derived().Around(OperationKind::kComplete, &Store::Complete, ops);
  }
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override {
    return derived().Around(OperationKind::kRelease, &Store::Release, ops);
  }
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override {
    return derived().Around(OperationKind::kExtend, &Store::Extend, ops);
  }
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override {
    return derived().Around(OperationKind::kGet, &Store::Get, ops);
  }
  FingerprintMatch MatchRequest(const Record& record, const ReserveOp& op) const override {
    return store_.MatchRequest(record, op);
  }
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override { return store_.Sweep(op); }
  absl::StatusOr<RecordPage> List(const ListOp& op) override { return store_.List(op); }
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op) override { return store_.Resolve(op); }
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) override { return store_.Purge(op); }
  absl::StatusOr<ResealStep> Reseal(const ResealOp& op) override { return store_.Reseal(op); }
  absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) override { return store_.ReadAudit(op); }
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) override {
    return store_.MeasureUsage(op);
  }
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) override {
    return store_.EndUnknown(op);
  }
  absl::StatusOr<StoreGauges> Inspect() override { return store_.Inspect(); }

 protected:
  template <typename Op, typename Answer>
  using StoreMethod = std::vector<Answer> (Store::*)(absl::Span<const Op>);

  Store& store() const { return store_; }

 private:
  Derived& derived() { return static_cast<Derived&>(*this); }

  Store& store_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TESTING_STORE_DECORATOR_H_
