#include "server/store/postgres/batched/sweep.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "core/sha256.h"
#include "grpc_idempotency/reply.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/sweep_place.h"
#include "server/store/reply_envelope.h"

namespace idempotency::internal {
namespace {

// Columns of a step's answer.
enum : int {
  kAlone,
  kSeen,
  kLastCreatedAt,
  kLastId,
  kVisitedAt,
  kDue,
  kRemoved,
  kEntombed,
  kLapsed,
  kRepliesOver,
  kChanged,
  kStopped,
};

// Columns of a reply that is over.
enum : int {
  kReplyId,
  kReplyToken,
  kReplyAttempt,
  kReplyDigest,
  kReply,  // NULL in a row that is read with the next few
};

// The parameters of drop_replies, an array for each column.
class DroppedReplies {
 public:
  bool empty() const { return empty_; }

  // `rest` replaces the reply of `row`.
  void Add(const PostgresResult& rows, int row, const EncodedReply& rest) {
    empty_ = false;
    ids_.AppendUuid(rows.GetUuid(row, kReplyId));
    tokens_.AppendUuid(rows.GetUuid(row, kReplyToken));
    attempts_.AppendInt4(static_cast<std::int32_t>(rows.Integer(row, kReplyAttempt)));
    rests_.AppendBytes(rest.bytes);
    digests_.AppendBytes(AsBytes(rest.digest));
    digests_before_.AppendBytes(rows.Bytea(row, kReplyDigest));
  }

  PostgresParameters Parameters() const {
    PostgresParameters parameters;
    for (const PostgresArray* const column :
         {&ids_, &tokens_, &attempts_, &rests_, &digests_, &digests_before_}) {
      parameters.Add(*column);
    }
    return parameters;
  }

 private:
  bool empty_ = true;
  PostgresArray ids_{PostgresType::kUuid};
  PostgresArray tokens_{PostgresType::kUuid};
  PostgresArray attempts_{PostgresType::kInt4};
  PostgresArray rests_{PostgresType::kBytea};
  PostgresArray digests_{PostgresType::kBytea};
  PostgresArray digests_before_{PostgresType::kBytea};
};

EncodedReply ReplyIn(const PostgresResult& rows, int row) {
  EncodedReply reply{rows.Bytea(row, kReply), {}};
  const std::string digest = rows.Bytea(row, kReplyDigest);
  std::copy_n(digest.begin(), std::min(digest.size(), reply.digest.size()), reply.digest.begin());
  return reply;
}

}  // namespace

absl::StatusOr<SweepProgress> BatchedSweep::Step(const SweepOp& op) {
  SweepProgress progress;
  progress.quiet = absl::InfiniteDuration();
  if (absl::Status status = Walk(op, progress); !status.ok()) return ToCallerStatus(status);
  if (progress.elsewhere) {
    progress.next = op.after;
    progress.quiet = absl::ZeroDuration();
  }
  if (visited_at_) {
    progress.turns = SweepTurns(*visited_at_);
    LeaveOpen(*visited_at_, progress);
  }
  if (absl::Status status = DropReplies(progress); !status.ok()) return ToCallerStatus(status);
  return progress;
}

absl::Status BatchedSweep::Walk(const SweepOp& op, SweepProgress& progress) {
  const auto visit = [&](const PostgresStatement& statement, const PostgresParameters& parameters) {
    return Visit(statement, parameters, progress);
  };
  return WalkSweep(
      connection_, unreadable_, op, progress,
      [&](const PostgresParameters& range) { return visit(statements_.sweep_ordered, range); },
      [&](const PostgresParameters& range) { return visit(statements_.sweep_hashed, range); });
}

absl::StatusOr<SweepVisit> BatchedSweep::Visit(const PostgresStatement& statement,
                                               const PostgresParameters& parameters,
                                               SweepProgress& progress) {
  const auto answer = connection_.ExecuteOne(statement, parameters);
  if (!answer.ok()) return answer.status();
  SweepVisit visit;
  visit.seen = Note(*answer, progress);
  if (visit.seen == 0) return visit;
  visit.last_created_at = answer->Time(0, kLastCreatedAt);
  visit.last_id = answer->GetUuid(0, kLastId);
  visit.stopped = answer->Bool(0, kStopped);
  return visit;
}

int BatchedSweep::Note(const PostgresResult& answer, SweepProgress& progress) {
  if (!answer.Bool(0, kAlone)) progress.elsewhere = true;
  visited_at_ = answer.Time(0, kVisitedAt);
  for (const std::string& id : answer.TextArray(0, kRepliesOver)) {
    replies_over_.push_back(Uuid::Parse(id).value_or(Uuid()));
  }
  // When the records changed now will need the sweep again is not known;
  // removed ones never will.
  if (answer.Bool(0, kChanged)) progress.quiet = absl::ZeroDuration();
  if (!answer.IsNull(0, kDue)) {
    const absl::Duration left = answer.Time(0, kDue) - answer.Time(0, kVisitedAt);
    progress.quiet = std::min(progress.quiet, std::max(left, absl::ZeroDuration()));
  }
  progress.removed += answer.Integer(0, kRemoved);
  progress.entombed += answer.Integer(0, kEntombed);
  progress.marked_unknown += answer.Integer(0, kLapsed);
  const auto seen = static_cast<int>(answer.Integer(0, kSeen));
  progress.visited += seen;
  return seen;
}

// The server fails the statement of all for one reply that it cannot read, or replace: that one is
// left, and a read of its record reports it. So are all where storage gives none.
absl::Status BatchedSweep::DropReplies(SweepProgress& progress) {
  absl::Status failure;
  RunByHalves(std::move(replies_over_), [&](std::vector<Uuid>& ids) {
    if (failure.ok()) {
      absl::Status dropped = DropReplies(ids, progress);
      if (dropped.ok() || IsUnreadable(dropped)) return dropped;
      failure = std::move(dropped);
    }
    ids.clear();
    return failure;
  });
  return failure;
}

// A few at a time: replies of one step may have gigabytes. A damaged one stays
// unchanged; a read of that record reports it.
absl::Status BatchedSweep::DropReplies(std::vector<Uuid>& ids, SweepProgress& progress) {
  std::sort(ids.begin(), ids.end());
  while (!ids.empty()) {
    PostgresArray wanted(PostgresType::kUuid);
    for (const Uuid& id : ids) wanted.AppendUuid(id);
    PostgresParameters read;
    read.Add(wanted);
    const auto rows = connection_.Execute(statements_.read_to_drop, read);
    if (!rows.ok()) return rows.status();
    std::vector<Uuid> next;
    DroppedReplies write;
    for (int row = 0; row < rows->rows(); ++row) {
      if (rows->IsNull(row, kReply)) {
        next.push_back(rows->GetUuid(row, kReplyId));
        continue;
      }
      const absl::StatusOr<EncodedReply> rest = StoredWithoutContent(ReplyIn(*rows, row));
      if (rest.ok()) write.Add(*rows, row, *rest);
    }
    if (!write.empty()) {
      const auto dropped = connection_.Execute(statements_.drop_replies, write.Parameters());
      if (!dropped.ok()) return dropped.status();
      progress.replies_dropped += dropped->rows();
    }
    std::sort(next.begin(), next.end());
    ids = std::move(next);
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal
