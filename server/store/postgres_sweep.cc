#include "server/store/postgres_sweep.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "core/reply.h"
#include "server/store/postgres_batch.h"
#include "server/store/postgres_parameters.h"

namespace idempotency {
namespace {

// Columns of a visit's summary.
enum : int {
  kSeen,
  kLastCreatedAt,
  kLastId,
  kVisitedAt,
  kDue,
  kGone,
  kToTombstone,
  kLapsed,
  kRepliesOver,
  kOpenForLong,
};

// The place before the first hashed id. Every place from here on is one of the
// walk by age: a 1 bit, 63 bits of microseconds since 2000, the first half of
// the id. (Two records of one microsecond whose ids share 63 bits of hash: the
// second waits for the next pass.)
Uuid HashedStart() {
  Uuid::Bytes bytes{};
  bytes[0] = 0x80;
  return Uuid(bytes);
}

// Behind every place of the walk by age.
Uuid HashedEnd() {
  Uuid::Bytes bytes;
  bytes.fill(0xFF);
  // Half of what 63 bits count: still a time that Postgres has.
  bytes[0] = 0x80;
  bytes[1] = 0xFF;
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
  Visited visited;
  if (!op.after || !IsHashed(*op.after)) {
    if (absl::Status status = VisitOrdered(op, visited); !status.ok()) return status;
  }
  if (!visited.next) {
    if (absl::Status status = VisitHashed(op, visited); !status.ok()) return status;
  }
  if (absl::Status status = Apply(visited, progress); !status.ok()) return status;
  progress.visited = visited.rows;
  progress.next = visited.next;
  progress.quiet = visited.quiet;
  return progress;
}

absl::Status PostgresSweep::VisitOrdered(const SweepOp& op, Visited& visited) {
  const RecordId after = op.after.value_or(RecordId());
  PostgresParameters parameters;
  parameters.Add(after);
  parameters.Add(op.until.value_or(HashedStart()));
  parameters.Add(op.limit);
  const auto summary = connection_.Execute(statements_.visit_ordered, parameters);
  if (!summary.ok()) return summary.status();
  const int seen = Note(*summary, visited);
  if (seen == op.limit) {
    visited.next = summary->GetUuid(0, kLastId);
  } else if (op.until && !IsHashed(*op.until)) {
    visited.next = op.until;
  } else {
    // New records come here.
    visited.quiet = absl::ZeroDuration();
  }
  return absl::OkStatus();
}

absl::Status PostgresSweep::VisitHashed(const SweepOp& op, Visited& visited) {
  const RecordId after = op.after && IsHashed(*op.after) ? *op.after : HashedStart();
  const int limit = op.limit - visited.rows;
  const auto [created_after, id_after] = AgeOf(after);
  const auto [created_until, id_until] = AgeOf(op.until ? *op.until : HashedEnd());
  PostgresParameters parameters;
  parameters.Add(created_after);
  parameters.Add(id_after);
  parameters.Add(created_until);
  parameters.Add(id_until);
  parameters.Add(limit);
  const auto summary = connection_.Execute(statements_.visit_hashed, parameters);
  if (!summary.ok()) return summary.status();
  const int seen = Note(*summary, visited);
  if (seen == limit) {
    visited.next = PlaceByAge(summary->Time(0, kLastCreatedAt), summary->GetUuid(0, kLastId));
  } else {
    visited.next = op.until;
    if (!op.until) visited.quiet = absl::ZeroDuration();
  }
  return absl::OkStatus();
}

int PostgresSweep::Note(const PostgresResult& summary, Visited& visited) {
  const auto take = [&summary](int column, std::vector<Uuid>& ids) {
    for (const std::string& id : summary.TextArray(0, column)) {
      ids.push_back(Uuid::Parse(id).value_or(Uuid()));
    }
  };
  take(kGone, visited.gone);
  take(kToTombstone, visited.to_tombstone);
  take(kLapsed, visited.lapsed);
  take(kRepliesOver, visited.replies_over);
  take(kOpenForLong, visited.open_for_long);
  // When those that are changed now will want something again is not known;
  // those that are removed never will.
  if (!visited.to_tombstone.empty() || !visited.lapsed.empty() || !visited.replies_over.empty() ||
      !visited.open_for_long.empty()) {
    visited.quiet = absl::ZeroDuration();
  }
  if (!summary.IsNull(0, kDue)) {
    const absl::Duration left = summary.Time(0, kDue) - summary.Time(0, kVisitedAt);
    visited.quiet = std::min(visited.quiet, std::max(left, absl::ZeroDuration()));
  }
  const auto seen = static_cast<int>(summary.Integer(0, kSeen));
  visited.rows += seen;
  return seen;
}

absl::Status PostgresSweep::Apply(const Visited& visited, SweepProgress& progress) {
  auto removed = ForIds(statements_.sweep_forgotten, visited.gone);
  if (!removed.ok()) return removed.status();
  progress.removed = static_cast<std::int64_t>(removed->size());
  const auto entombed = ForIds(statements_.sweep_to_tombstone, visited.to_tombstone);
  if (!entombed.ok()) return entombed.status();
  progress.entombed = static_cast<std::int64_t>(entombed->size());
  removed->insert(removed->end(), entombed->begin(), entombed->end());
  if (auto done = ForIds(statements_.sweep_checkpoints, *std::move(removed)); !done.ok()) {
    return done.status();
  }
  const auto lapsed = ForIds(statements_.sweep_lapsed, visited.lapsed);
  if (!lapsed.ok()) return lapsed.status();
  progress.marked_unknown = static_cast<std::int64_t>(lapsed->size());
  if (absl::Status dropped = DropReplies(visited.replies_over, progress); !dropped.ok()) {
    return dropped;
  }
  return ForIds(statements_.watch, visited.open_for_long).status();
}

// A few at a time: replies of one step may weigh gigabytes. A damaged one stays
// as it is, to be found by whoever asks for it.
absl::Status PostgresSweep::DropReplies(std::vector<Uuid> ids, SweepProgress& progress) {
  while (!ids.empty()) {
    std::sort(ids.begin(), ids.end());
    PostgresArray wanted(PostgresType::kUuid);
    for (const Uuid& id : std::exchange(ids, {})) wanted.AppendUuid(id);
    PostgresParameters read;
    read.Add(wanted);
    const auto rows = connection_.Execute(statements_.read_to_drop, read);
    if (!rows.ok()) return rows.status();
    PostgresArray found(PostgresType::kUuid);
    PostgresArray tokens(PostgresType::kUuid);
    PostgresArray attempts(PostgresType::kInt4);
    PostgresArray rests(PostgresType::kBytea);
    PostgresArray digests(PostgresType::kBytea);
    bool any = false;
    // Columns: id, token, attempt, reply_digest, reply or NULL.
    for (int row = 0; row < rows->rows(); ++row) {
      if (rows->IsNull(row, 4)) {
        ids.push_back(rows->GetUuid(row, 0));
        continue;
      }
      EncodedReply reply{rows->Bytea(row, 4), {}};
      const std::string digest = rows->Bytea(row, 3);
      std::copy_n(digest.begin(), std::min(digest.size(), reply.digest.size()),
                  reply.digest.begin());
      const absl::StatusOr<EncodedReply> rest = WithoutContent(reply);
      if (!rest.ok()) continue;
      any = true;
      found.AppendUuid(rows->GetUuid(row, 0));
      tokens.AppendUuid(rows->GetUuid(row, 1));
      attempts.AppendInt4(static_cast<std::int32_t>(rows->Integer(row, 2)));
      rests.AppendBytes(rest->bytes);
      digests.AppendBytes(
          {reinterpret_cast<const char*>(rest->digest.data()), rest->digest.size()});
    }
    if (!any) continue;
    PostgresParameters write;
    for (const PostgresArray* const column : {&found, &tokens, &attempts, &rests, &digests}) {
      write.Add(*column);
    }
    const auto dropped = connection_.Execute(statements_.drop_replies, write);
    if (!dropped.ok()) return dropped.status();
    progress.replies_dropped += dropped->rows();
  }
  return absl::OkStatus();
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
