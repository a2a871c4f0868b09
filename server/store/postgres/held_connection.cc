#include "server/store/postgres/held_connection.h"

#include "server/store/postgres/batched/settle.h"

namespace idempotency::internal {

PostgresHeldConnection::Reserving::Reserving(PostgresStore& store, PostgresConnection& connection,
                                             absl::Span<const ReserveOp> ops)
    : batch(ops), reserve(connection, store.statements_, batch, store.ReadsFirst()) {}

bool PostgresHeldConnection::BeginReserve(absl::Span<const ReserveOp> ops) {
  lease_.Withdraw();
  if (!store_.connections_.schema().ok()) return false;
  reserving_.emplace(store_, *lease_, ops);
  store_.locked_rows_.SetAside(reserving_->batch);
  const BatchedReserve::Indices pending = reserving_->batch.Unanswered(reserving_->batch.All());
  if (!pending.empty() && reserving_->reserve.SendFirst(pending)) return true;
  reserving_.reset();
  return false;
}

std::vector<absl::StatusOr<Verdict>> PostgresHeldConnection::FinishReserve() {
  std::vector<absl::StatusOr<Verdict>> answers =
      store_.Finish(*lease_, reserving_->batch, reserving_->reserve);
  reserving_.reset();
  return answers;
}

bool PostgresHeldConnection::BeginComplete(absl::Span<const CompleteOp> ops) {
  lease_.Withdraw();
  if (!store_.connections_.schema().ok()) return false;
  completing_.emplace(ops);
  store_.locked_rows_.SetAside(*completing_);
  const CompleteBatch::Indices pending = completing_->Unanswered(completing_->All());
  if (!pending.empty() && SendComplete(*lease_, store_.statements_, *completing_, pending)) {
    return true;
  }
  completing_.reset();
  return false;
}

std::vector<absl::StatusOr<Completion>> PostgresHeldConnection::FinishComplete() {
  std::vector<absl::StatusOr<Completion>> answers = store_.Finish(*lease_, *completing_);
  completing_.reset();
  return answers;
}

}  // namespace idempotency::internal
