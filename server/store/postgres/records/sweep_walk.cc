#include "server/store/postgres/records/sweep_walk.h"

#include "server/store/postgres/records/sweep_place.h"

namespace idempotency::internal {
namespace {

absl::Status WalkOrdered(const SweepOp& op, SweepProgress& progress, VisitStatement visit) {
  PostgresParameters parameters;
  parameters.Add(op.after.value_or(RecordId()));
  parameters.Add(op.until.value_or(HashedStart()));
  parameters.Add(op.limit);
  const absl::StatusOr<SweepVisit> visited = visit(parameters);
  if (!visited.ok()) return visited.status();
  if (visited->seen == op.limit) {
    progress.next = visited->last_id;
  } else if (op.until && !IsHashed(*op.until)) {
    progress.next = op.until;
  } else {
    // New records are added here.
    progress.quiet = absl::ZeroDuration();
  }
  return absl::OkStatus();
}

absl::Status WalkHashed(const SweepOp& op, SweepProgress& progress, VisitStatement visit) {
  const RecordId after = op.after && IsHashed(*op.after) ? *op.after : HashedStart();
  const int limit = op.limit - static_cast<int>(progress.visited);
  const auto [created_after, id_after] = AgeOf(after);
  const auto [created_until, id_until] = AgeOf(op.until ? *op.until : HashedEnd());
  PostgresParameters parameters;
  parameters.Add(created_after);
  parameters.Add(id_after);
  parameters.Add(created_until);
  parameters.Add(id_until);
  parameters.Add(limit);
  const absl::StatusOr<SweepVisit> visited = visit(parameters);
  if (!visited.ok()) return visited.status();
  if (visited->seen == limit) {
    progress.next = PlaceByAge(visited->last_created_at, visited->last_id);
  } else {
    progress.next = op.until;
    if (!op.until) progress.quiet = absl::ZeroDuration();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WalkSweep(const SweepOp& op, SweepProgress& progress, VisitStatement ordered,
                       VisitStatement hashed) {
  if (!op.after || !IsHashed(*op.after)) {
    if (absl::Status status = WalkOrdered(op, progress, ordered); !status.ok()) return status;
  }
  if (progress.next || progress.elsewhere) return absl::OkStatus();
  return WalkHashed(op, progress, hashed);
}

}  // namespace idempotency::internal
