#ifndef IDEMPOTENCY_SERVER_TESTING_STORE_DECORATOR_H_
#define IDEMPOTENCY_SERVER_TESTING_STORE_DECORATOR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/observability/operation_kind.h"
#include "server/store/forwarding_store.h"

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
// A batch of CompleteAndReserve() passes it twice, unless `Derived` overrides that. Maintenance and
// the administrators' methods are passed on. Hold() is not, so that no call passes
// the hook by: a decorated store has no held connections. As thread-safe as the hook.
template <typename Derived>
class StoreDecorator : public ForwardingAdmin {
 public:
  // `store` outlives this.
  explicit StoreDecorator(Store& store) : ForwardingAdmin(store), store_(store) {}

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override {
    return derived().Around(OperationKind::kReserve, &RecordStore::Reserve, ops);
  }
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override {
    return derived().Around(OperationKind::kComplete, &RecordStore::Complete, ops);
  }
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override {
    return derived().Around(OperationKind::kRelease, &RecordStore::Release, ops);
  }
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override {
    return derived().Around(OperationKind::kExtend, &RecordStore::Extend, ops);
  }
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override {
    return derived().Around(OperationKind::kGet, &RecordStore::Get, ops);
  }
  FingerprintMatch MatchRequest(const Record& record, const ReserveOp& op) const override {
    return store_.MatchRequest(record, op);
  }

 protected:
  template <typename Op, typename Answer>
  using StoreMethod = std::vector<Answer> (RecordStore::*)(absl::Span<const Op>);

  Store& store() const { return store_; }

 private:
  Derived& derived() { return static_cast<Derived&>(*this); }

  Store& store_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TESTING_STORE_DECORATOR_H_
