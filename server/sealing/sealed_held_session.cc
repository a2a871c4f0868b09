#include "server/sealing/sealed_held_session.h"

namespace idempotency::internal {

bool SealedHeldSession::BeginReserve(absl::Span<const ReserveOp> ops) {
  reservations_ = ops;
  sealer_.emplace(store_.NewSealer());
  sealed_reservations_ = SealedStore::SealAll(*sealer_, ops);
  return session_->BeginReserve(sealed_reservations_);
}

std::vector<absl::StatusOr<Verdict>> SealedHeldSession::FinishReserve() {
  std::vector<absl::StatusOr<Verdict>> answers = session_->FinishReserve();
  session_.reset();
  store_.Finish(*sealer_, reservations_, sealed_reservations_, answers);
  return answers;
}

bool SealedHeldSession::BeginComplete(absl::Span<const CompleteOp> ops) {
  completions_ = ops;
  sealer_.emplace(store_.NewSealer());
  std::vector<absl::StatusOr<Completion>> unsealed(ops.size());
  sealed_completions_ = SealedStore::SealAll(*sealer_, ops, unsealed);
  // Otherwise one could not be sealed.
  return sealed_completions_.ops.size() == ops.size() &&
         session_->BeginComplete(sealed_completions_.ops);
}

std::vector<absl::StatusOr<Completion>> SealedHeldSession::FinishComplete() {
  std::vector<absl::StatusOr<Completion>> answers = session_->FinishComplete();
  session_.reset();
  store_.CompleteUnderOthers(*sealer_, completions_, sealed_completions_, answers);
  return answers;
}

}  // namespace idempotency::internal
