#include "server/store/postgres/records/sweep_walk.h"

#include <cstdint>

#include "server/store/postgres/records/sweep_place.h"
#include "server/store/postgres/records/unreadable_rows.h"

namespace idempotency::internal {
namespace {

absl::Status WalkOrdered(const SweepOp& op, SweepProgress& progress, VisitStatement visit) {
  PostgresParameters parameters;
  parameters.Add(op.after.value_or(RecordId()));
  parameters.Add(op.until.value_or(HashedStart()));
  parameters.Add(op.limit);
  const absl::StatusOr<SweepVisit> visited = visit(parameters);
  if (!visited.ok()) return visited.status();
  if (visited->seen == op.limit || visited->stopped) {
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
  if (visited->seen == limit || visited->stopped) {
    progress.next = PlaceByAge(visited->last_created_at, visited->last_id);
  } else {
    progress.next = op.until;
    if (!op.until) progress.quiet = absl::ZeroDuration();
  }
  return absl::OkStatus();
}

absl::Status WalkBoth(const SweepOp& op, SweepProgress& progress, VisitStatement ordered,
                      VisitStatement hashed) {
  progress.next.reset();
  if (!op.after || !IsHashed(*op.after)) {
    if (absl::Status status = WalkOrdered(op, progress, ordered); !status.ok()) return status;
  }
  if (progress.next || progress.elsewhere) return absl::OkStatus();
  if (op.until && !(HashedStart() < *op.until)) {
    progress.next = op.until;
    return absl::OkStatus();
  }
  const bool ordered_is_done = !op.after || !IsHashed(*op.after);
  const std::int64_t before = progress.visited;
  const absl::Status status = WalkHashed(op, progress, hashed);
  const bool in_the_way =
      (IsUnreadable(status) && before > 0) || (absl::IsCancelled(status) && ordered_is_done);
  if (!in_the_way) return status;
  // The ordered ones are done: the next step meets the damage, or the slow part, first.
  progress.next = HashedStart();
  return absl::OkStatus();
}

const WalkRange& TheSweep() {
  static const WalkRange* const kRange = new WalkRange{WalkRange::Order::kSweep, ""};
  return *kRange;  // never destroyed
}

RecordPlace PlaceOf(const std::optional<Uuid>& id) { return {"", id.value_or(Uuid())}; }

// The rows that a step passes because they are known to be unreadable.
struct Passed {
  std::int64_t rows = 0;
  // One that the step looks at.
  std::optional<RecordPlace> looked_at;
};

// Lets `op` begin behind those that are next, and end before another one.
Passed PassKnown(const UnreadablePlaces& unreadable, SweepOp& op) {
  Passed passed;
  while (const auto known = unreadable.FirstAfter(TheSweep(), PlaceOf(op.after))) {
    if (op.until && *op.until < known->id) break;
    if (const Uuid before = PlaceBefore(*known).id; PlaceOf(op.after).id < before) {
      op.until = before;
      break;
    }
    if (unreadable.IsDue(TheSweep(), *known)) {
      op.until = known->id;
      op.limit = 1;
      passed.looked_at = known;
      break;
    }
    op.after = known->id;
    ++passed.rows;
  }
  return passed;
}

// The first row behind op.after cannot be read, or that of one of several tables.
absl::Status StepOver(PostgresConnection& connection, UnreadablePlaces& unreadable, SweepOp op,
                      SweepProgress& progress, VisitStatement ordered, VisitStatement hashed,
                      const absl::Status& failure) {
  const auto visit = [&](const Uuid& until) -> absl::StatusOr<bool> {
    op.until = until;
    const absl::Status status = WalkBoth(op, progress, ordered, hashed);
    if (!status.ok()) return status;
    return progress.elsewhere || progress.visited > 0;
  };
  const auto place = FindUnreadable(connection, op.after.value_or(RecordId()),
                                    op.until.value_or(HashedEnd()), visit, failure);
  if (!place.ok()) return place.status();
  // The probe that found rows has visited them.
  if (!*place) return absl::OkStatus();
  unreadable.Add(TheSweep(), PlaceOf(*place));
  progress.visited += 1;
  progress.next = *place;
  return absl::OkStatus();
}

}  // namespace

absl::Status WalkSweep(PostgresConnection& connection, UnreadablePlaces& unreadable,
                       const SweepOp& op, SweepProgress& progress, VisitStatement ordered,
                       VisitStatement hashed) {
  SweepOp part = Narrowed(op);
  const Passed passed = PassKnown(unreadable, part);
  bool is_damaged = passed.rows > 0;
  absl::Status status = ReadFewer(connection, part.limit, [&](int limit) {
    SweepOp fewer = part;
    fewer.limit = limit;
    absl::Status walked = WalkBoth(fewer, progress, ordered, hashed);
    is_damaged = is_damaged || IsUnreadable(walked);
    return walked;
  });
  if (status.ok() && passed.looked_at) unreadable.Remove(TheSweep(), *passed.looked_at);
  if (IsUnreadable(status)) {
    status = StepOver(connection, unreadable, part, progress, ordered, hashed, status);
  }
  if (is_damaged) progress.quiet = absl::ZeroDuration();
  if (status.ok() && !progress.elsewhere) progress.visited += passed.rows;
  if (!absl::IsCancelled(status) || op.narrow >= SweepOp::kNarrowest) return status;
  progress.too_slow = true;
  progress.next = op.after;
  progress.quiet = absl::ZeroDuration();
  return absl::OkStatus();
}

}  // namespace idempotency::internal
