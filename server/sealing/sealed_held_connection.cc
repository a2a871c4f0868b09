#include "server/sealing/sealed_held_connection.h"

namespace idempotency::internal {

bool SealedHeldConnection::BeginReserve(absl::Span<const ReserveOp> ops) {
  reservations_ = ops;
  sealer_.emplace(store_.NewSealer());
  sealed_reservations_ = SealedStore::SealAll(*sealer_, ops);
  return connection_->BeginReserve(sealed_reservations_);
}

std::vector<absl::StatusOr<Verdict>> SealedHeldConnection::FinishReserve() {
  std::vector<absl::StatusOr<Verdict>> answers = connection_->FinishReserve();
  connection_.reset();
  store_.Finish(*sealer_, reservations_, sealed_reservations_, answers);
  return answers;
}

bool SealedHeldConnection::BeginComplete(absl::Span<const CompleteOp> ops) {
  completions_ = ops;
  sealer_.emplace(store_.NewSealer());
  std::vector<absl::StatusOr<Completion>> unsealed(ops.size());
  sealed_completions_ = SealedStore::SealAll(*sealer_, ops, unsealed);
  // Otherwise one could not be sealed.
  return sealed_completions_.ops.size() == ops.size() &&
         connection_->BeginComplete(sealed_completions_.ops);
}

std::vector<absl::StatusOr<Completion>> SealedHeldConnection::FinishComplete() {
  std::vector<absl::StatusOr<Completion>> answers = connection_->FinishComplete();
  connection_.reset();
  store_.CompleteUnderOthers(*sealer_, completions_, sealed_completions_, answers);
  return answers;
}

}  // namespace idempotency::internal
