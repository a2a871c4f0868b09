#include "server/store/postgres/batched/shared_commit.h"

#include <cstddef>

#include "server/store/postgres/batched/rows.h"
#include "server/store/postgres/records/batch.h"

namespace idempotency::internal {
namespace {

// A commit takes about as long as a disk takes for this much.
constexpr std::size_t kMaxReplyBytes = 1024 * 1024;

// The columns of a row of `complete_and_insert`.
constexpr int kCompleted = 0;
constexpr int kInserted = 4;

}  // namespace

bool SharedCommit::Pays(absl::Span<const CompleteOp> completions,
                        absl::Span<const ReserveOp> reservations) {
  if (completions.empty() || reservations.empty()) return false;
  std::size_t bytes = 0;
  for (const CompleteOp& op : completions) bytes += op.reply.bytes.size();
  return bytes <= kMaxReplyBytes;
}

void SharedCommit::Run(CompleteBatch& completing, ReserveBatch& reserving,
                       BatchedReserve& reserve) {
  const CompleteBatch::Indices completions = completing.Unanswered(completing.All());
  const BatchedReserve::Indices insertable =
      reserve.Insertable(reserving.Unanswered(reserving.All()));
  const absl::Status together = completions.empty() || insertable.empty()
                                    ? absl::OkStatus()
                                    : RunTogether(completing, completions, reserve, insertable);
  if (absl::IsUnavailable(together) && !IsMediaFailure(together)) {
    completing.FailAll(completing.Unanswered(completing.All()), ToCallerStatus(together));
    reserving.FailAll(reserving.Unanswered(reserving.All()), ToCallerStatus(together));
    return;
  }
  if (IsLocked(together)) {
    absl::Status found = SetAsideLocked(connection_, statements_, completing,
                                        completing.Unanswered(completing.All()));
    if (found.ok()) {
      found = SetAsideLocked(connection_, statements_, reserving,
                             reserving.Unanswered(reserving.All()));
    }
    // The separate rounds find the row that the server cannot read.
    if (!found.ok() && !IsUnreadable(found)) {
      completing.FailAll(completing.Unanswered(completing.All()), ToCallerStatus(found));
      reserving.FailAll(reserving.Unanswered(reserving.All()), ToCallerStatus(found));
      return;
    }
  }
  const auto complete = [this, &completing](const CompleteBatch::Indices& pending) {
    return CompleteRound(connection_, statements_, completing, pending);
  };
  RunRoundsOn(connection_, statements_, completing, complete);
  RunRoundsOn(connection_, statements_, reserving, reserve);
}

absl::Status SharedCommit::RunTogether(CompleteBatch& completing,
                                       const CompleteBatch::Indices& completions,
                                       BatchedReserve& reserve,
                                       const BatchedReserve::Indices& insertable) {
  PostgresParameters parameters = CompleteParameters(completing, completions);
  parameters.Append(reserve.BeginInsert(insertable));
  const auto result = connection_.Execute(statements_.complete_and_insert, parameters);
  if (!result.ok()) return result.status();
  for (int row = 0; row < result->rows(); ++row) {
    if (result->IsNull(row, kInserted)) {
      SettleCompleted(*result, row, kCompleted, completing);
    } else {
      reserve.SettleInserted(*result, row, kInserted);
    }
  }
  reserve.EndInsert(insertable);
  return absl::OkStatus();
}

}  // namespace idempotency::internal
