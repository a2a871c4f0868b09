#ifndef IDEMPOTENCY_TESTS_CONFORMANCE_HELD_STORE_H_
#define IDEMPOTENCY_TESTS_CONFORMANCE_HELD_STORE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/store/held_connection.h"
#include "server/testing/store_decorator.h"

namespace idempotency::internal {

// A store whose reservations and completions begin through connections that it holds for one call
// each, where they can. Thread-safe.
class HeldStore final : public StoreDecorator<HeldStore> {
 public:
  // `store` outlives this.
  explicit HeldStore(Store& store) : StoreDecorator(store) {}

 private:
  friend class StoreDecorator<HeldStore>;

  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind /*kind*/, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops) {
    return (store().*method)(ops);
  }
  std::vector<absl::StatusOr<Verdict>> Around(
      OperationKind /*kind*/, StoreMethod<ReserveOp, absl::StatusOr<Verdict>> method,
      absl::Span<const ReserveOp> ops) {
    std::unique_ptr<HeldConnection> connection = store().Hold([] {});
    if (connection != nullptr && connection->BeginReserve(ops)) {
      return connection->FinishReserve();
    }
    connection.reset();
    return (store().*method)(ops);
  }
  std::vector<absl::StatusOr<Completion>> Around(
      OperationKind /*kind*/, StoreMethod<CompleteOp, absl::StatusOr<Completion>> method,
      absl::Span<const CompleteOp> ops) {
    std::unique_ptr<HeldConnection> connection = store().Hold([] {});
    if (connection != nullptr && connection->BeginComplete(ops)) {
      return connection->FinishComplete();
    }
    connection.reset();
    return (store().*method)(ops);
  }
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TESTS_CONFORMANCE_HELD_STORE_H_
