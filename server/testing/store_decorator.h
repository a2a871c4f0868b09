#ifndef IDEMPOTENCY_SERVER_TESTING_STORE_DECORATOR_H_
#define IDEMPOTENCY_SERVER_TESTING_STORE_DECORATOR_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/store/store.h"

namespace idempotency::internal {

// Passes each operation to another store. A test's store overrides those that it changes;
// CompleteAndReserve() is Complete() and Reserve() of the decorator. As thread-safe as the inner
// store is.
class StoreDecorator : public Store {
 public:
  // `inner` outlives it.
  explicit StoreDecorator(Store& inner) : inner_(inner) {}

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override {
    return inner_.Reserve(ops);
  }
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override {
    return inner_.Complete(ops);
  }
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override {
    return inner_.Release(ops);
  }
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override {
    return inner_.Extend(ops);
  }
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override {
    return inner_.Get(ops);
  }
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override { return inner_.Sweep(op); }
  absl::StatusOr<StoreGauges> Inspect() override { return inner_.Inspect(); }

 protected:
  Store& inner() { return inner_; }

 private:
  Store& inner_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TESTING_STORE_DECORATOR_H_
