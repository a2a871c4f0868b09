#include "server/store/postgres/single_row/reserve.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "grpc_idempotency/fingerprint.h"
#include "server/store/batch_weight.h"
#include "server/store/limits.h"
#include "server/store/postgres/records/operation_parameters.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

// $1-$19 of an insert.
PostgresParameters InsertParameters(const ReserveOp& op, const Grant& grant, const Uuid& token) {
  PostgresParameters parameters;
  parameters.Add(op.id);
  AddKey(op.key, parameters);
  parameters.AddBool(op.on_lease_expiry == LeaseExpiry::kRequireRecovery);
  parameters.Add(token);
  AddOptional(op.request_token, parameters);
  parameters.Add(grant.created_at);
  parameters.Add(grant.lease_expires_at);
  parameters.Add(grant.expires_at);
  parameters.AddBytes(EncodeFingerprints(op.fingerprints));
  AddParent(op.parent, parameters);
  AddLabels(op.labels, parameters);
  AddOptional(grant.reply_expires_at, parameters);
  AddOptional(grant.tombstone_until, parameters);
  return parameters;
}

// The pause of a release ends no lease, so it has no margin. Every record has one before it is
// forgotten: by then the pause is over.
absl::Time JudgingTime(const Record& record, const SingleRowTime& time) {
  const bool kept_by_now = time.now < record.expires_at;
  return record.state == RecordState::kReleased && kept_by_now ? time.now : time.judged;
}

// What a grant of an existing record writes, as of now rather than of `judged`.
Grant WrittenGrant(const ReserveOp& op, ReserveAction action, Grant grant,
                   const StoredRecord& stored, absl::Time now) {
  if (action == ReserveAction::kGrantRecovery) {
    grant.expires_at = std::max(stored.record.expires_at, now + op.retention);
    grant.tombstone_until = TombstoneAfter(stored.record, grant.expires_at);
  }
  grant.lease_expires_at = std::min(now + op.lease, grant.expires_at);
  return grant;
}

}  // namespace

absl::Status SingleRowReserve::operator()(const Indices& pending) {
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return time.status();
  if (!std::exchange(read_next_, true)) {
    Insert(PlanInserts(pending, *time), *time);
    return absl::OkStatus();
  }
  Plan plan;
  if (absl::Status status = MakePlan(pending, *time, plan); !status.ok()) return status;
  Insert(std::move(plan.insert), *time);
  StartAfresh(std::move(plan.start_afresh), *time);
  GrantNext(std::move(plan.grant), *time);
  RenewLeases(std::move(plan.renew_lease), *time);
  MarkUnknown(std::move(plan.mark_unknown));
  return absl::OkStatus();
}

std::vector<SingleRowReserve::Step> SingleRowReserve::PlanInserts(const Indices& pending,
                                                                  const SingleRowTime& time) const {
  std::vector<Step> steps;
  for (const std::size_t index : pending) {
    const ReserveOp& op = batch_.op(index);
    if (op.only_existing) continue;
    Step step;
    step.index = index;
    step.decision = DecideReserve(op, time.now, std::nullopt);
    if (step.decision.action == ReserveAction::kInsert) steps.push_back(std::move(step));
  }
  return steps;
}

absl::Status SingleRowReserve::MakePlan(const Indices& pending, const SingleRowTime& time,
                                        Plan& plan) {
  std::vector<SingleRowRecords::Row> rows =
      ReadReplies(records_, batch_, pending, {limits::kMaxBatchReplyBytes, /*confirmed=*/true});
  std::vector<StoredRecord*> open;
  std::vector<SingleRowRecords::Row*> open_rows;
  for (SingleRowRecords::Row& row : rows) {
    if (row.ok() && *row && first_look_) ++known_;
    // A completed record's checkpoint is no longer needed.
    if (row.ok() && *row && (*row)->stored.record.state != RecordState::kCompleted) {
      open.push_back(&(*row)->stored);
      open_rows.push_back(&row);
    }
  }
  first_look_ = false;
  const std::vector<absl::Status> added =
      records_.AddCheckpoints(open, SingleRowRecords::Life::kPresent);
  for (std::size_t i = 0; i < added.size(); ++i) {
    if (!added[i].ok()) *open_rows[i] = added[i];
  }
  for (std::size_t i = 0; i < pending.size(); ++i) {
    Step step;
    step.index = pending[i];
    const ReserveOp& op = batch_.op(step.index);
    SingleRowRecords::Row& row = rows[i];
    if (absl::IsDataLoss(row.status())) {
      batch_.Settle(step.index, row.status());
    } else if (!row.ok()) {
      FailRow(batch_, step.index, row.status());
    } else if (!*row) {
      step.decision = DecideReserve(op, time.now, std::nullopt);
      Add(std::move(step), time, plan);
    } else if ((*row)->reply_left_out) {
      batch_.Settle(step.index, BatchWeight::NextCall());
    } else {
      step.stored = std::move((*row)->stored);
      step.decision = DecideReserve(op, JudgingTime(step.stored.record, time), step.stored);
      Add(std::move(step), time, plan);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Verdict> SingleRowReserve::AsOfNow(absl::StatusOr<Verdict> answer,
                                                  const SingleRowTime& time) const {
  if (!answer.ok()) return answer;
  if (auto* const reserved = std::get_if<Reserved>(&*answer)) {
    reserved->lease_remaining =
        std::max(reserved->lease_remaining - (time.now - time.judged), absl::ZeroDuration());
  }
  return answer;
}

void SingleRowReserve::Add(Step step, const SingleRowTime& time, Plan& plan) {
  if (step.decision.action == ReserveAction::kAnswer) {
    batch_.Settle(step.index, AsOfNow(std::move(step.decision.answer), time));
  } else {
    plan.Add(std::move(step));
  }
}

template <typename Answer>
void SingleRowReserve::Write(const PostgresStatement& statement, std::vector<Step>& steps,
                             const std::vector<PostgresParameters>& executions, Answer answer) {
  const auto written = records_.connection().ExecuteEach(statement, executions);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!written[i].ok()) {
      FailWrite(records_, batch_, steps[i].index, written[i].status());
    } else if (written[i]->rows() > 0) {
      batch_.Settle(steps[i].index, answer(steps[i]));
    }
  }
}

void SingleRowReserve::Insert(std::vector<Step> steps, const SingleRowTime& time) {
  std::vector<PostgresParameters> executions;
  for (Step& step : steps) {
    step.decision.grant.token = Uuid::Random();
    step.decision.grant.after_expiry = was_forgotten_[step.index];
    executions.push_back(
        InsertParameters(batch_.op(step.index), step.decision.grant, step.decision.grant.token));
  }
  Write(records_.statements().insert, steps, executions, [&time](Step& step) {
    const Uuid token = step.decision.grant.token;
    return Verdict(ToReserved(std::move(step.decision.grant), token, time.now));
  });
}

void SingleRowReserve::StartAfresh(std::vector<Step> steps, const SingleRowTime& time) {
  std::vector<PostgresParameters> executions;
  std::vector<PostgresParameters> checkpoints;
  for (Step& step : steps) {
    const ReserveOp& op = batch_.op(step.index);
    was_forgotten_[step.index] = true;
    const Grant first = FirstGrant(op, time.now);
    step.decision.grant.created_at = first.created_at;
    step.decision.grant.lease_expires_at = first.lease_expires_at;
    step.decision.grant.expires_at = first.expires_at;
    step.decision.grant.reply_expires_at = first.reply_expires_at;
    step.decision.grant.tombstone_until = first.tombstone_until;
    step.decision.grant.token = Uuid::Random();
    PostgresParameters& parameters = executions.emplace_back(
        InsertParameters(op, step.decision.grant, step.decision.grant.token));
    parameters.Add(step.stored.record.token);
    parameters.Add(static_cast<std::int32_t>(step.stored.record.attempt));
    parameters.AddInt2(ToProto(step.stored.record.state));
    parameters.Add(step.stored.record.expires_at);
    AddOptional(step.stored.record.tombstone_until, parameters);
    PostgresParameters& old = checkpoints.emplace_back();
    old.Add(op.id);
    old.Add(step.stored.record.created_at);
  }
  Write(records_.statements().start_afresh, steps, executions, [&time](Step& step) {
    const Uuid token = step.decision.grant.token;
    return Verdict(ToReserved(std::move(step.decision.grant), token, time.now));
  });
  // Nobody reads what this does not clear.
  records_.connection().ExecuteEach(records_.statements().clear_old_checkpoint, checkpoints,
                                    PostgresConnection::LockWait::kBrief);
}

void SingleRowReserve::GrantNext(std::vector<Step> steps, const SingleRowTime& time) {
  std::vector<PostgresParameters> executions;
  for (Step& step : steps) {
    const ReserveOp& op = batch_.op(step.index);
    step.decision.grant = WrittenGrant(op, step.decision.action, std::move(step.decision.grant),
                                       step.stored, time.now);
    Grant& grant = step.decision.grant;
    grant.token = Uuid::Random();
    PostgresParameters& parameters = executions.emplace_back(RowVersionParameters(step.stored));
    parameters.Add(grant.token);
    AddOptional(op.request_token, parameters);
    parameters.AddBool(step.decision.action == ReserveAction::kGrantRecovery);
    parameters.Add(grant.lease_expires_at);
    parameters.Add(grant.expires_at);
    AddOptional(grant.tombstone_until, parameters);
  }
  Write(records_.statements().grant, steps, executions, [&time](Step& step) {
    const Uuid token = step.decision.grant.token;
    return Verdict(ToReserved(std::move(step.decision.grant), token, time.now));
  });
}

void SingleRowReserve::RenewLeases(std::vector<Step> steps, const SingleRowTime& time) {
  std::vector<PostgresParameters> executions;
  for (Step& step : steps) {
    Grant& grant = step.decision.grant;
    grant.lease_expires_at =
        std::min(time.now + batch_.op(step.index).lease, step.stored.record.expires_at);
    PostgresParameters& parameters = executions.emplace_back(RowVersionParameters(step.stored));
    parameters.Add(grant.lease_expires_at);
  }
  Write(records_.statements().renew_lease, steps, executions, [&time](Step& step) {
    const Uuid token = step.decision.grant.token;
    return Verdict(ToReserved(std::move(step.decision.grant), token, time.now));
  });
}

void SingleRowReserve::MarkUnknown(std::vector<Step> steps) {
  std::vector<PostgresParameters> executions;
  for (const Step& step : steps) executions.push_back(RowVersionParameters(step.stored));
  Write(records_.statements().mark_unknown, steps, executions,
        [](Step& step) { return std::move(step.decision.answer); });
}

}  // namespace idempotency::internal
