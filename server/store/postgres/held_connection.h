#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_HELD_CONNECTION_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_HELD_CONNECTION_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/store/held_connection.h"
#include "server/store/postgres/batched/reserve.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/records/operation_batches.h"

namespace idempotency::internal {

// A connection of the store's pool, offered to others until a call begins.
class PostgresHeldConnection final : public HeldConnection {
 public:
  // `store` outlives it.
  PostgresHeldConnection(PostgresStore& store, PostgresStore::Pool::Lease lease)
      : store_(store), lease_(std::move(lease)) {}

  int descriptor() const override { return lease_->descriptor(); }
  bool BeginReserve(absl::Span<const ReserveOp> ops) override;
  bool BeginComplete(absl::Span<const CompleteOp> ops) override;
  std::vector<absl::StatusOr<Verdict>> FinishReserve() override;
  std::vector<absl::StatusOr<Completion>> FinishComplete() override;

 private:
  // The reservations of a call that began.
  struct Reserving {
    Reserving(PostgresStore& store, PostgresConnection& connection,
              absl::Span<const ReserveOp> ops);

    ReserveBatch batch;
    BatchedReserve reserve;
  };

  PostgresStore& store_;
  PostgresStore::Pool::Lease lease_;
  // One of the two during a call.
  std::optional<Reserving> reserving_;
  std::optional<CompleteBatch> completing_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_HELD_CONNECTION_H_
