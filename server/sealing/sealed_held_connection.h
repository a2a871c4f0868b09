#ifndef IDEMPOTENCY_SERVER_SEALING_SEALED_HELD_CONNECTION_H_
#define IDEMPOTENCY_SERVER_SEALING_SEALED_HELD_CONNECTION_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/sealing/sealed_store.h"
#include "server/sealing/sealer.h"
#include "server/store/held_connection.h"

namespace idempotency::internal {

// A connection of the store behind a SealedStore: seals what begins, and opens the answers.
class SealedHeldConnection final : public HeldConnection {
 public:
  // `store` outlives it.
  SealedHeldConnection(SealedStore& store, std::unique_ptr<HeldConnection> connection)
      : store_(store), connection_(std::move(connection)) {}

  int descriptor() const override { return connection_->descriptor(); }
  bool BeginReserve(absl::Span<const ReserveOp> ops) override;
  bool BeginComplete(absl::Span<const CompleteOp> ops) override;
  std::vector<absl::StatusOr<Verdict>> FinishReserve() override;
  std::vector<absl::StatusOr<Completion>> FinishComplete() override;

 private:
  SealedStore& store_;
  // nullptr once the call is finished: what follows it takes a connection of its own.
  std::unique_ptr<HeldConnection> connection_;
  std::optional<Sealer> sealer_;
  absl::Span<const ReserveOp> reservations_;
  std::vector<ReserveOp> sealed_reservations_;
  absl::Span<const CompleteOp> completions_;
  SealedStore::SealedCompletions sealed_completions_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_SEALED_HELD_CONNECTION_H_
