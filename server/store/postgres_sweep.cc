#include "server/store/postgres_sweep.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "server/store/postgres_batch.h"
#include "server/store/postgres_parameters.h"

namespace idempotency {
namespace {

// The place before the first hashed id. Every place from here on is one of the
// walk by age: a 1 bit, 63 bits of microseconds since 2000, the first half of
// the id. (Two records of one microsecond whose ids share 63 bits of hash: the
// second waits for the next pass.)
Uuid HashedStart() {
  Uuid::Bytes bytes{};
  bytes[0] = 0x80;
  return Uuid(bytes);
}

bool IsHashed(const Uuid& id) { return (id.bytes()[0] & 0x80) != 0; }

Uuid PlaceByAge(absl::Time created_at, const Uuid& id) {
  const auto micros = static_cast<std::uint64_t>(ToPostgresMicros(created_at));
  Uuid::Bytes bytes{};
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(micros >> (56 - 8 * i));
  bytes[0] |= 0x80;
  std::copy_n(id.bytes().begin(), 8, bytes.begin() + 8);
  return Uuid(bytes);
}

// The pair that the place stands for: everything up to it has been visited.
std::pair<absl::Time, Uuid> AgeOf(const Uuid& place) {
  std::uint64_t micros = place.bytes()[0] & 0x7F;
  for (int i = 1; i < 8; ++i) micros = (micros << 8) | place.bytes()[i];
  Uuid::Bytes last;
  last.fill(0xFF);
  std::copy_n(place.bytes().begin() + 8, 8, last.begin());
  return {FromPostgresMicros(static_cast<std::int64_t>(micros)), Uuid(last)};
}

}  // namespace

absl::StatusOr<SweepProgress> PostgresSweep::Step(const SweepOp& op) {
  if (absl::Status begun = connection_.Begin(); !begun.ok()) return ToCallerStatus(begun);
  absl::StatusOr<SweepProgress> progress = StepLocked(op);
  const absl::Status ended = progress.ok() ? connection_.Commit() : connection_.Rollback();
  if (!progress.ok()) return ToCallerStatus(progress.status());
  if (!ended.ok()) return ToCallerStatus(ended);
  return progress;
}

absl::StatusOr<SweepProgress> PostgresSweep::StepLocked(const SweepOp& op) {
  SweepProgress progress;
  const auto locked = connection_.Execute(statements_.lock_sweep, {});
  if (!locked.ok()) return locked.status();
  if (!locked->Bool(0, 0)) {
    progress.elsewhere = true;
    progress.next = op.after;
    return progress;
  }
  const RecordId after = op.after.value_or(RecordId());
  Visited visited;
  if (!IsHashed(after)) {
    if (absl::Status status = VisitOrdered(after, op.limit, visited); !status.ok()) return status;
  }
  if (!visited.next) {
    if (absl::Status status =
            VisitHashed(IsHashed(after) ? after : HashedStart(), op.limit - visited.rows, visited);
        !status.ok()) {
      return status;
    }
  }
  if (absl::Status status = Apply(visited, progress); !status.ok()) return status;
  progress.next = visited.next;
  return progress;
}

absl::Status PostgresSweep::VisitOrdered(const RecordId& after, int limit, Visited& visited) {
  PostgresParameters parameters;
  parameters.Add(after);
  // One more than is looked at: is this the end?
  parameters.Add(limit + 1);
  const auto rows = connection_.Execute(statements_.visit_ordered, parameters);
  if (!rows.ok()) return rows.status();
  const int seen = Note(*rows, limit, visited);
  if (rows->rows() > seen) visited.next = seen > 0 ? rows->GetUuid(seen - 1, 0) : after;
  return absl::OkStatus();
}

absl::Status PostgresSweep::VisitHashed(const RecordId& after, int limit, Visited& visited) {
  const auto [created_after, id_after] = AgeOf(after);
  PostgresParameters parameters;
  parameters.Add(created_after);
  parameters.Add(id_after);
  parameters.Add(limit + 1);
  const auto rows = connection_.Execute(statements_.visit_hashed, parameters);
  if (!rows.ok()) return rows.status();
  const int seen = Note(*rows, limit, visited);
  if (rows->rows() > seen) {
    // None, if the ids before the hashed ones used the limit up.
    visited.next =
        seen > 0 ? PlaceByAge(rows->Time(seen - 1, 4), rows->GetUuid(seen - 1, 0)) : after;
  }
  return absl::OkStatus();
}

// Columns: id, forgotten, lapsed, open for long, created_at. Answers how many
// rows were looked at.
int PostgresSweep::Note(const PostgresResult& rows, int limit, Visited& visited) {
  const int seen = std::min(rows.rows(), limit);
  for (int row = 0; row < seen; ++row) {
    const Uuid id = rows.GetUuid(row, 0);
    if (rows.Bool(row, 1)) visited.forgotten.push_back(id);
    if (rows.Bool(row, 2)) visited.lapsed.push_back(id);
    if (rows.Bool(row, 3)) visited.open_for_long.push_back(id);
  }
  visited.rows += seen;
  return seen;
}

absl::Status PostgresSweep::Apply(const Visited& visited, SweepProgress& progress) {
  const auto removed = ForIds(statements_.sweep_forgotten, visited.forgotten);
  if (!removed.ok()) return removed.status();
  progress.removed = static_cast<std::int64_t>(removed->size());
  if (auto done = ForIds(statements_.sweep_checkpoints, *removed); !done.ok()) {
    return done.status();
  }
  const auto lapsed = ForIds(statements_.sweep_lapsed, visited.lapsed);
  if (!lapsed.ok()) return lapsed.status();
  progress.marked_unknown = static_cast<std::int64_t>(lapsed->size());
  return ForIds(statements_.watch, visited.open_for_long).status();
}

absl::StatusOr<std::vector<Uuid>> PostgresSweep::ForIds(const PostgresStatement& statement,
                                                        std::vector<Uuid> ids) {
  std::vector<Uuid> returned;
  if (ids.empty()) return returned;
  std::sort(ids.begin(), ids.end());
  PostgresArray array(PostgresType::kUuid);
  for (const Uuid& id : ids) array.AppendUuid(id);
  PostgresParameters parameters;
  parameters.Add(array);
  const auto result = connection_.Execute(statement, parameters);
  if (!result.ok()) return result.status();
  for (int row = 0; row < result->rows(); ++row) returned.push_back(result->GetUuid(row, 0));
  return returned;
}

}  // namespace idempotency
