#include "server/store/postgres/batched/reserve.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "server/store/batch_weight.h"
#include "server/store/postgres/batched/columns.h"
#include "server/store/postgres/batched/insert_parameters.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {

BatchedReserve::BatchedReserve(PostgresConnection& connection, const PostgresStatements& statements,
                               ReserveBatch& batch, bool read_first)
    : connection_(connection),
      statements_(statements),
      batch_(batch),
      progress_(batch.size()),
      read_next_(read_first) {}

absl::Status BatchedReserve::operator()(const Indices& pending) {
  if (!std::exchange(read_next_, true)) return Insert(Insertable(pending));
  Plan plan;
  if (absl::Status status = MakePlan(pending, plan); !status.ok()) return status;
  if (absl::Status status = Insert(IndicesOf(plan.insert)); !status.ok()) return status;
  if (absl::Status status = StartAfresh(plan.start_afresh); !status.ok()) return status;
  if (absl::Status status = GrantNext(plan.grant); !status.ok()) return status;
  if (absl::Status status = RenewLeases(plan.renew_lease); !status.ok()) return status;
  return MarkUnknown(plan.mark_unknown);
}

bool BatchedReserve::SendFirst(const Indices& pending) {
  if (read_next_) return SendReadToReserve(connection_, statements_, IdsToRead(pending));
  const Indices insertable = Sorted(Insertable(pending));
  if (insertable.empty()) return false;
  sent_ = InsertParameters(insertable);
  return connection_.Send(InsertStatement(insertable.size(), AreRelaxed(insertable)), *sent_);
}

std::vector<RecordId> BatchedReserve::IdsToRead(const Indices& pending) const {
  std::vector<RecordId> ids;
  ids.reserve(pending.size());
  for (const std::size_t index : ReserveBatch::InOrder(pending)) ids.push_back(batch_.op(index).id);
  return ids;
}

BatchedReserve::Indices BatchedReserve::Insertable(const Indices& pending) const {
  Indices insertable;
  insertable.reserve(pending.size());
  for (const std::size_t index : pending) {
    if (!batch_.op(index).only_existing) insertable.push_back(index);
  }
  return insertable;
}

absl::Status BatchedReserve::MakePlan(const Indices& pending, Plan& plan) {
  auto rows = ReadToReserve(connection_, statements_, IdsToRead(pending));
  if (!rows.ok()) return rows.status();
  if (std::exchange(first_look_, false)) known_ += rows->size();
  Indices missing;
  for (const std::size_t index : pending) {
    const ReserveOp& op = batch_.op(index);
    const auto row = rows->find(op.id);
    if (row == rows->end()) {
      // The insert itself checks the window, by the clock of its own moment.
      if (progress_[index].insert_tried || op.only_existing) {
        missing.push_back(index);
      } else {
        plan.insert.emplace_back().index = index;
      }
    } else if (!row->second.ok()) {
      batch_.Settle(index, row->second.status());
    } else if (row->second->reply_left_out) {
      batch_.Settle(index, BatchWeight::NextCall());
    } else {
      PostgresRecord& read = *row->second;
      Step step;
      step.index = index;
      step.state = read.stored.record.state;
      step.lease_until = read.stored.record.lease_expires_at;
      step.decision = DecideReserve(op, read.read_at, std::move(read.stored));
      Add(std::move(step), plan);
    }
  }
  return PlanMissing(missing, plan);
}

// The insert did not take them, and nothing is there: outside the window, or
// swept in between; or they may not be inserted.
absl::Status BatchedReserve::PlanMissing(const Indices& missing, Plan& plan) {
  if (missing.empty()) return absl::OkStatus();
  const auto clock = connection_.Execute(statements_.read_clock, {});
  if (!clock.ok()) return clock.status();
  for (const std::size_t index : missing) {
    Step step;
    step.index = index;
    step.decision = DecideReserve(batch_.op(index), clock->Time(0, 0), std::nullopt);
    Add(std::move(step), plan);
  }
  return absl::OkStatus();
}

void BatchedReserve::Add(Step step, Plan& plan) {
  if (step.decision.action == ReserveAction::kAnswer) {
    batch_.Settle(step.index, std::move(step.decision.answer));
  } else {
    plan.Add(std::move(step));
  }
}

// Returns: id, created_at, lease_until, expires_at, now.
absl::Status BatchedReserve::Insert(const Indices& indices) {
  if (indices.empty()) return absl::OkStatus();
  // A plan may have put keys that were missing behind others.
  const Indices sorted = Sorted(indices);
  const bool relaxed = AreRelaxed(sorted);
  const PostgresParameters parameters = sent_ ? *std::move(sent_) : InsertParameters(sorted);
  sent_.reset();
  const auto result = connection_.Execute(InsertStatement(sorted.size(), relaxed), parameters);
  if (!result.ok()) return FailedWrite(sorted, result.status());
  for (int row = 0; row < result->rows(); ++row) SettleInserted(*result, row, 0, relaxed);
  EndInsert(sorted);
  return absl::OkStatus();
}

BatchedReserve::Indices BatchedReserve::Sorted(Indices indices) const {
  std::sort(indices.begin(), indices.end(),
            [this](std::size_t a, std::size_t b) { return batch_.op(a).id < batch_.op(b).id; });
  return indices;
}

bool BatchedReserve::AreRelaxed(const Indices& indices) const {
  return std::all_of(indices.begin(), indices.end(),
                     [this](std::size_t index) { return batch_.op(index).relaxed; });
}

const PostgresStatement& BatchedReserve::InsertStatement(std::size_t size, bool relaxed) const {
  if (size == 1) return relaxed ? statements_.insert_one_relaxed : statements_.insert_one;
  return relaxed ? statements_.insert_relaxed : statements_.insert;
}

PostgresParameters BatchedReserve::InsertParameters(const Indices& sorted) {
  if (sorted.size() > 1) return BeginInsert(sorted);
  const std::size_t index = sorted.front();
  progress_[index].token = Uuid::Random();
  return InsertOneParameters(batch_.op(index), progress_[index].token);
}

PostgresParameters BatchedReserve::BeginInsert(const Indices& indices) {
  std::vector<const ReserveOp*> ops;
  PostgresArray tokens(PostgresType::kUuid, indices.size());
  ops.reserve(indices.size());
  for (const std::size_t index : indices) {
    ops.push_back(&batch_.op(index));
    progress_[index].token = Uuid::Random();
    tokens.AppendUuid(progress_[index].token);
  }
  return InsertManyParameters(ops, std::move(tokens));
}

void BatchedReserve::SettleInserted(const PostgresResult& result, int row, int column,
                                    bool relaxed) {
  const std::size_t index = batch_.IndexOf(result.GetUuid(row, column));
  Grant grant;
  grant.attempt = 1;
  grant.labels = batch_.op(index).labels;
  grant.created_at = result.Time(row, column + 1);
  grant.lease_expires_at = result.Time(row, column + 2);
  grant.expires_at = result.Time(row, column + 3);
  grant.after_expiry = progress_[index].was_forgotten;
  Reserved reserved =
      ToReserved(std::move(grant), progress_[index].token, result.Time(row, column + 4));
  reserved.relaxed = relaxed;
  batch_.Settle(index, Verdict(std::move(reserved)));
}

void BatchedReserve::EndInsert(const Indices& indices) {
  for (const std::size_t index : indices) progress_[index].insert_tried = true;
  read_next_ = true;
}

// Returns what an insert returns. The window is checked by the clock of its own moment.
absl::Status BatchedReserve::StartAfresh(const std::vector<Step>& steps) {
  if (steps.empty()) return absl::OkStatus();
  Indices indices;
  for (const Step& step : steps) {
    progress_[step.index].was_forgotten = true;
    indices.push_back(step.index);
  }
  PostgresParameters parameters = BeginInsert(indices);
  AddHeld(steps, parameters);
  const auto result = connection_.Execute(statements_.start_afresh, parameters);
  if (!result.ok()) return FailedWrite(indices, result.status());
  for (int row = 0; row < result->rows(); ++row) SettleInserted(*result, row, 0);
  return absl::OkStatus();
}

PostgresParameters BatchedReserve::GrantParameters(const std::vector<Step>& steps) {
  PostgresParameters parameters = RowVersionsOf(steps);
  const auto add = [&](PostgresType type, const auto& value_of) {
    parameters.Add(Column(type, steps, value_of));
  };
  for (const Step& step : steps) progress_[step.index].token = Uuid::Random();
  add(PostgresType::kInt2,
      [](const Step& step) { return static_cast<std::int16_t>(ToProto(step.state)); });
  add(PostgresType::kTimestamptz, [](const Step& step) { return step.lease_until; });
  add(PostgresType::kUuid, [this](const Step& step) { return progress_[step.index].token; });
  add(PostgresType::kUuid,
      [this](const Step& step) { return batch_.op(step.index).request_token; });
  add(PostgresType::kInterval, [this](const Step& step) { return batch_.op(step.index).lease; });
  add(PostgresType::kInterval, [this](const Step& step) {
    const bool recovery = step.decision.action == ReserveAction::kGrantRecovery;
    return recovery ? std::make_optional(batch_.op(step.index).retention) : std::nullopt;
  });
  return parameters;
}

// Returns: id, lease_until, expires_at, now.
absl::Status BatchedReserve::GrantNext(const std::vector<Step>& steps) {
  if (steps.empty()) return absl::OkStatus();
  const auto result = connection_.Execute(statements_.grant, GrantParameters(steps));
  if (!result.ok()) return FailedWrite(IndicesOf(steps), result.status());
  for (int row = 0; row < result->rows(); ++row) {
    const Step& step = StepOf(*result, row, steps);
    Grant grant = step.decision.grant;
    grant.lease_expires_at = result->Time(row, 1);
    grant.expires_at = result->Time(row, 2);
    batch_.Settle(step.index, Verdict(ToReserved(std::move(grant), progress_[step.index].token,
                                                 result->Time(row, 3))));
  }
  return absl::OkStatus();
}

// Returns: id, lease_until, expires_at, now.
absl::Status BatchedReserve::RenewLeases(const std::vector<Step>& steps) {
  if (steps.empty()) return absl::OkStatus();
  PostgresParameters parameters = RowVersionsOf(steps);
  parameters.Add(Column(PostgresType::kInterval, steps,
                        [this](const Step& step) { return batch_.op(step.index).lease; }));
  const auto result = connection_.Execute(statements_.renew_lease, parameters);
  if (!result.ok()) return FailedWrite(IndicesOf(steps), result.status());
  for (int row = 0; row < result->rows(); ++row) {
    const Step& step = StepOf(*result, row, steps);
    Grant grant = step.decision.grant;
    grant.lease_expires_at = result->Time(row, 1);
    batch_.Settle(step.index, Verdict(ToReserved(std::move(grant), step.decision.grant.token,
                                                 result->Time(row, 3))));
  }
  return absl::OkStatus();
}

// Returns: id, lease_until.
absl::Status BatchedReserve::MarkUnknown(const std::vector<Step>& steps) {
  if (steps.empty()) return absl::OkStatus();
  const auto result = connection_.Execute(statements_.mark_unknown, RowVersionsOf(steps));
  if (!result.ok()) return FailedWrite(IndicesOf(steps), result.status());
  for (int row = 0; row < result->rows(); ++row) {
    const Step& step = StepOf(*result, row, steps);
    auto unknown = std::get<OutcomeUnknown>(*step.decision.answer);
    unknown.since = result->Time(row, 1);
    batch_.Settle(step.index, Verdict(std::move(unknown)));
  }
  return absl::OkStatus();
}

const BatchedReserve::Step& BatchedReserve::StepOf(const PostgresResult& result, int row,
                                                   const std::vector<Step>& steps) const {
  const std::size_t index = batch_.IndexOf(result.GetUuid(row, 0));
  return *std::find_if(steps.begin(), steps.end(),
                       [index](const Step& step) { return step.index == index; });
}

BatchedReserve::Indices BatchedReserve::IndicesOf(const std::vector<Step>& steps) {
  Indices indices;
  indices.reserve(steps.size());
  for (const Step& step : steps) indices.push_back(step.index);
  return indices;
}

absl::Status BatchedReserve::FailedWrite(const Indices& indices, const absl::Status& failure) {
  return SettleFailedWrite(connection_, statements_, batch_, indices, failure);
}

void BatchedReserve::AddHeld(const std::vector<Step>& steps, PostgresParameters& parameters) {
  parameters.Add(Column(PostgresType::kUuid, steps,
                        [](const Step& step) { return step.decision.expected.token; }));
  parameters.Add(Column(PostgresType::kInt4, steps, [](const Step& step) {
    return static_cast<std::int32_t>(step.decision.expected.attempt);
  }));
}

// $1 ids, $2 tokens, $3 attempts: the values that the rows must still have.
PostgresParameters BatchedReserve::RowVersionsOf(const std::vector<Step>& steps) const {
  PostgresParameters parameters;
  parameters.Add(Column(PostgresType::kUuid, steps,
                        [this](const Step& step) { return batch_.op(step.index).id; }));
  AddHeld(steps, parameters);
  return parameters;
}

}  // namespace idempotency::internal
