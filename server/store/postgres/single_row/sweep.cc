#include "server/store/postgres/single_row/sweep.h"

#include <algorithm>
#include <utility>

#include "core/sha256.h"
#include "server/store/limits.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/sweep_place.h"
#include "server/store/postgres/statements/sweep_limits.h"
#include "server/store/reply_envelope.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

bool IsOpenForLong(const Record& record, absl::Time now) {
  return record.state == RecordState::kReserved && record.lease_expires_at > now &&
         record.created_at <= now - sweep_limits::kOpenForLong;
}

// When a record that needs nothing now will need the sweep.
absl::Time DueAt(const Record& record, const SweepView& view, bool open_for_long, absl::Time now) {
  const absl::Time forgotten = record.expires_at + limits::kClockStepMargin;
  if (record.state == RecordState::kUnknown) return absl::InfiniteFuture();
  if (view.entombed) return *record.tombstone_until + limits::kClockStepMargin;
  if (record.state == RecordState::kCompleted && !view.reply_dropped) {
    return std::min(forgotten, record.reply_expires_at.value_or(absl::InfiniteFuture()));
  }
  if (record.state != RecordState::kReserved) return forgotten;
  absl::Time due =
      record.on_lease_expiry == LeaseExpiry::kRequireRecovery ? record.lease_expires_at : forgotten;
  if (record.lease_expires_at > now) {
    due = std::min(due, open_for_long ? record.lease_expires_at
                                      : record.created_at + sweep_limits::kOpenForLong);
  }
  return due;
}

}  // namespace

absl::StatusOr<SweepProgress> SingleRowSweep::Step(const SweepOp& op) {
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  time_ = *time;
  SweepProgress progress;
  progress.quiet = absl::InfiniteDuration();
  progress.turns = SweepTurns(time_.now);
  if (absl::Status status = Walk(op, progress); !status.ok()) return ToCallerStatus(status);
  LeaveOpen(time_.now, progress);
  if (absl::Status status = ChangeAll(progress); !status.ok()) return ToCallerStatus(status);
  return progress;
}

absl::Status SingleRowSweep::Walk(const SweepOp& op, SweepProgress& progress) {
  const SingleRowStatements& statements = records_.statements();
  const auto visit = [&](const PostgresStatement& statement, const PostgresParameters& parameters) {
    return Visit(statement, parameters, progress);
  };
  return WalkSweep(
      records_.connection(), records_.unreadable(), op, progress,
      [&](const PostgresParameters& range) { return visit(statements.visit_ordered, range); },
      [&](const PostgresParameters& range) { return visit(statements.visit_hashed, range); });
}

absl::StatusOr<SweepVisit> SingleRowSweep::Visit(const PostgresStatement& statement,
                                                 const PostgresParameters& parameters,
                                                 SweepProgress& progress) {
  const auto rows = records_.connection().ExecuteOne(statement, parameters);
  if (!rows.ok()) return rows.status();
  SweepVisit visit;
  visit.seen = Note(*rows, progress);
  visit.stopped = visit.seen < rows->rows();
  if (visit.seen == 0) return visit;
  visit.last_created_at = rows->Time(visit.seen - 1, visit_column::kCreatedAt);
  visit.last_id = rows->GetUuid(visit.seen - 1, visit_column::kId);
  return visit;
}

std::optional<SingleRowSweep::Visited> SingleRowSweep::ReadVisited(const PostgresResult& rows,
                                                                   int row) {
  using namespace visit_column;  // NOLINT(google-build-using-namespace): column names
  const std::optional<RecordState> state = RecordStateFrom(rows.Integer(row, kState));
  if (!state) return std::nullopt;
  Visited visited;
  Record& record = visited.stored.record;
  record.id = rows.GetUuid(row, kId);
  record.token = rows.GetUuid(row, kToken);
  record.state = *state;
  record.attempt = static_cast<std::uint32_t>(rows.Integer(row, kAttempt));
  record.created_at = rows.Time(row, kCreatedAt);
  record.lease_expires_at = rows.Time(row, kLeaseUntil);
  record.expires_at = rows.Time(row, kExpiresAt);
  record.on_lease_expiry =
      rows.Bool(row, kRequireRecovery) ? LeaseExpiry::kRequireRecovery : LeaseExpiry::kTakeOver;
  if (!rows.IsNull(row, kReplyUntil)) record.reply_expires_at = rows.Time(row, kReplyUntil);
  if (!rows.IsNull(row, kTombstoneUntil)) {
    record.tombstone_until = rows.Time(row, kTombstoneUntil);
  }
  visited.view = {record.state,
                  record.on_lease_expiry,
                  record.lease_expires_at,
                  record.expires_at,
                  record.reply_expires_at,
                  record.tombstone_until,
                  rows.Bool(row, kReplyDropped),
                  rows.Bool(row, kEntombed)};
  visited.open_for_long = rows.Bool(row, kOpenForLong);
  visited.watched = rows.Bool(row, kWatched);
  return visited;
}

bool SingleRowSweep::IsFull() const {
  return removed_bytes_ >= static_cast<std::int64_t>(sweep_limits::kRemovedAtOnceBytes);
}

int SingleRowSweep::Note(const PostgresResult& rows, SweepProgress& progress) {
  int row = 0;
  for (; row < rows.rows() && (row == 0 || !IsFull()); ++row) {
    // A damaged one stays unchanged; a read of that record reports it.
    std::optional<Visited> visited = ReadVisited(rows, row);
    if (!visited) continue;
    if (const SweepAction action = DecideSweep(visited->view, time_.judged);
        action == SweepAction::kRemove || action == SweepAction::kEntomb) {
      removed_bytes_ += rows.Integer(row, visit_column::kReplyBytes);
    }
    Note(*std::move(visited), progress);
  }
  progress.visited += row;
  return row;
}

void SingleRowSweep::Note(Visited visited, SweepProgress& progress) {
  const Record& record = visited.stored.record;
  switch (DecideSweep(visited.view, time_.judged)) {
    case SweepAction::kRemove:
      // It will never need the sweep again.
      remove_.push_back(std::move(visited));
      return;
    case SweepAction::kEntomb:
      entomb_.push_back(std::move(visited));
      break;
    case SweepAction::kDropReply:
      replies_over_.push_back(record.id);
      break;
    case SweepAction::kMarkUnknown:
      mark_unknown_.push_back(std::move(visited));
      break;
    case SweepAction::kKeep: {
      const bool open = IsOpenForLong(record, time_.now);
      if (visited.open_for_long == open &&
          !(record.state == RecordState::kReserved && visited.watched)) {
        const absl::Time due = DueAt(record, visited.view, open, time_.judged);
        progress.quiet =
            std::min(progress.quiet, std::max(due - time_.judged, absl::ZeroDuration()));
        return;
      }
      visited.open_for_long = open;
      watch_.push_back(std::move(visited));
    }
  }
  // When the records changed now will need the sweep again is not known.
  progress.quiet = absl::ZeroDuration();
}

absl::Status SingleRowSweep::ChangeAll(SweepProgress& progress) {
  if (absl::Status status = RemoveAll(progress); !status.ok()) return status;
  if (absl::Status status = EntombAll(progress); !status.ok()) return status;
  std::vector<PostgresParameters> lapsed;
  for (const Visited& visited : mark_unknown_) {
    lapsed.push_back(RowVersionParameters(visited.stored));
  }
  absl::Status status = Write(records_.statements().mark_unknown, mark_unknown_, lapsed,
                              /*with_checkpoints=*/false, progress.marked_unknown);
  if (!status.ok()) return status;
  std::vector<PostgresParameters> watched;
  for (const Visited& visited : watch_) {
    watched.emplace_back(RowVersionParameters(visited.stored)).AddBool(visited.open_for_long);
  }
  std::int64_t uncounted = 0;
  status =
      Write(records_.statements().watch, watch_, watched, /*with_checkpoints=*/false, uncounted);
  if (!status.ok()) return status;
  return DropReplies(progress);
}

absl::Status SingleRowSweep::RemoveAll(SweepProgress& progress) {
  std::vector<PostgresParameters> executions;
  for (const Visited& visited : remove_) executions.push_back(RemoveParameters(visited.stored));
  return Write(records_.statements().remove, remove_, executions, /*with_checkpoints=*/true,
               progress.removed);
}

absl::Status SingleRowSweep::EntombAll(SweepProgress& progress) {
  std::vector<PostgresParameters> executions;
  for (const Visited& visited : entomb_) {
    const Record& record = visited.stored.record;
    PostgresParameters& parameters = executions.emplace_back(RowVersionParameters(visited.stored));
    parameters.Add(record.created_at);
    parameters.Add(record.lease_expires_at);
    parameters.Add(record.expires_at);
    parameters.Add(*record.tombstone_until);
    parameters.Add(*record.tombstone_until);
  }
  return Write(records_.statements().entomb, entomb_, executions, /*with_checkpoints=*/true,
               progress.entombed);
}

absl::Status SingleRowSweep::Write(const PostgresStatement& statement,
                                   const std::vector<Visited>& visited,
                                   const std::vector<PostgresParameters>& executions,
                                   bool with_checkpoints, std::int64_t& changed) {
  const auto written = records_.connection().ExecuteEach(statement, executions,
                                                         PostgresConnection::LockWait::kBrief);
  std::vector<PostgresParameters> checkpoints;
  absl::Status first;
  for (std::size_t i = 0; i < written.size(); ++i) {
    // A row that is locked, whose node is lost, or that the server cannot write, is left to the
    // next pass.
    if (!written[i].ok()) {
      if (!IsLeftAlone(written[i].status()) && !IsUnreadable(written[i].status())) {
        first.Update(written[i].status());
      }
      continue;
    }
    if (written[i]->rows() == 0) continue;
    changed += 1;
    if (!with_checkpoints) continue;
    PostgresParameters& checkpoint = checkpoints.emplace_back();
    checkpoint.Add(visited[i].stored.record.id);
    checkpoint.Add(visited[i].stored.record.created_at);
  }
  // What this leaves is read by nobody, and removed by SingleRowOrphans.
  records_.connection().ExecuteEach(records_.statements().remove_checkpoint, checkpoints,
                                    PostgresConnection::LockWait::kBrief);
  return first;
}

absl::Status SingleRowSweep::DropReplies(SweepProgress& progress) {
  while (!replies_over_.empty()) {
    const std::vector<RecordId> ids = std::exchange(replies_over_, {});
    std::vector<PostgresParameters> executions;
    const std::vector<SingleRowRecords::Row> rows =
        records_.Read(ids, {sweep_limits::kDroppedAtOnceBytes, /*confirmed=*/false});
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (IsUnreadable(rows[i].status())) continue;
      if (!rows[i].ok()) return rows[i].status();
      if (!*rows[i] || (*rows[i])->stored.record.state != RecordState::kCompleted ||
          (*rows[i])->stored.completed_digest) {
        continue;
      }
      if ((*rows[i])->reply_left_out) {
        replies_over_.push_back(ids[i]);
        continue;
      }
      const StoredRecord& stored = (*rows[i])->stored;
      const absl::StatusOr<EncodedReply> rest = StoredWithoutContent(*stored.record.reply);
      if (!rest.ok()) continue;
      PostgresParameters& parameters = executions.emplace_back(RowVersionParameters(stored));
      parameters.AddBytes(rest->bytes);
      parameters.AddBytes(AsBytes(rest->digest));
      parameters.AddBytes(AsBytes(stored.record.reply->digest));
    }
    for (const auto& dropped : records_.connection().ExecuteEach(
             records_.statements().drop_reply, executions, PostgresConnection::LockWait::kBrief)) {
      if (!dropped.ok() && !IsLeftAlone(dropped.status()) && !IsUnreadable(dropped.status())) {
        return dropped.status();
      }
      if (dropped.ok()) progress.replies_dropped += dropped->rows();
    }
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal
