#include "server/store/postgres/batched/reserve.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <variant>

#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "server/store/batch_weight.h"
#include "server/store/postgres/records/operation_parameters.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

void AppendOptional(const std::optional<Uuid>& value, PostgresArray& array) {
  if (value) {
    array.AppendUuid(*value);
  } else {
    array.AppendNull();
  }
}

// The columns of `insert` that describe the record and its grant; the tokens
// are the store's.
PostgresParameters ManyParameters(const std::vector<const ReserveOp*>& ops, PostgresArray tokens) {
  PostgresArray ids(PostgresType::kUuid, ops.size());
  PostgresArray namespaces(PostgresType::kText, ops.size());
  PostgresArray scopes(PostgresType::kText, ops.size());
  PostgresArray operations(PostgresType::kText, ops.size());
  PostgresArray keys(PostgresType::kText, ops.size());
  PostgresArray made_at(PostgresType::kTimestamptz, ops.size());
  PostgresArray windows(PostgresType::kInterval, ops.size());
  PostgresArray fingerprints(PostgresType::kBytea, ops.size());
  PostgresArray require_recovery(PostgresType::kBool, ops.size());
  PostgresArray request_tokens(PostgresType::kUuid, ops.size());
  PostgresArray leases(PostgresType::kInterval, ops.size());
  PostgresArray retentions(PostgresType::kInterval, ops.size());
  std::vector<PostgresArray> parent(4, PostgresArray(PostgresType::kText, ops.size()));
  PostgresArray labels(PostgresType::kText, ops.size());
  PostgresArray reply_retentions(PostgresType::kInterval, ops.size());
  PostgresArray tombstones(PostgresType::kInterval, ops.size());
  for (const ReserveOp* const op : ops) {
    ids.AppendUuid(op->id);
    namespaces.AppendBytes(op->key.name_space);
    scopes.AppendBytes(op->key.scope);
    operations.AppendBytes(op->key.operation);
    keys.AppendBytes(op->key.key);
    if (const auto time = KeyTime(op->key)) {
      made_at.AppendTime(*time);
    } else {
      made_at.AppendNull();
    }
    windows.AppendInterval(op->window);
    fingerprints.AppendBytes(EncodeFingerprints(op->fingerprints));
    require_recovery.AppendBool(op->on_lease_expiry == LeaseExpiry::kRequireRecovery);
    AppendOptional(op->request_token, request_tokens);
    leases.AppendInterval(op->lease);
    retentions.AppendInterval(op->retention);
    if (op->parent) {
      parent[0].AppendBytes(op->parent->name_space);
      parent[1].AppendBytes(op->parent->scope);
      parent[2].AppendBytes(op->parent->operation);
      parent[3].AppendBytes(op->parent->key);
    } else {
      for (PostgresArray& part : parent) part.AppendNull();
    }
    if (op->reply_retention) {
      reply_retentions.AppendInterval(*op->reply_retention);
    } else {
      reply_retentions.AppendNull();
    }
    if (op->tombstone > absl::ZeroDuration()) {
      tombstones.AppendInterval(op->tombstone);
    } else {
      tombstones.AppendNull();
    }
    if (op->labels.empty()) {
      labels.AppendNull();
    } else {
      labels.AppendBytes(LabelsToJson(op->labels));
    }
  }
  PostgresParameters parameters;
  for (PostgresArray* const column : std::initializer_list<PostgresArray*>{&ids,
                                                                           &namespaces,
                                                                           &scopes,
                                                                           &operations,
                                                                           &keys,
                                                                           &made_at,
                                                                           &windows,
                                                                           &fingerprints,
                                                                           &require_recovery,
                                                                           &tokens,
                                                                           &request_tokens,
                                                                           &leases,
                                                                           &retentions,
                                                                           &parent[0],
                                                                           &parent[1],
                                                                           &parent[2],
                                                                           &parent[3],
                                                                           &labels,
                                                                           &reply_retentions,
                                                                           &tombstones}) {
    parameters.Add(std::move(*column));
  }
  return parameters;
}

// The same columns, each without an array.
PostgresParameters OneParameters(const ReserveOp& op, const Uuid& token) {
  PostgresParameters parameters;
  parameters.Add(op.id);
  AddKey(op.key, parameters);
  AddOptional(KeyTime(op.key), parameters);
  parameters.AddInterval(op.window);
  parameters.AddBytes(EncodeFingerprints(op.fingerprints));
  parameters.AddBool(op.on_lease_expiry == LeaseExpiry::kRequireRecovery);
  parameters.Add(token);
  AddOptional(op.request_token, parameters);
  parameters.AddInterval(op.lease);
  parameters.AddInterval(op.retention);
  AddParent(op.parent, parameters);
  AddLabels(op.labels, parameters);
  AddOptional(op.reply_retention, parameters);
  AddOptional(op.tombstone > absl::ZeroDuration() ? std::make_optional(op.tombstone) : std::nullopt,
              parameters);
  return parameters;
}

}  // namespace

PostgresReserve::PostgresReserve(PostgresConnection& connection,
                                 const PostgresStatements& statements, ReserveBatch& batch,
                                 std::size_t size, bool read_first)
    : connection_(connection),
      statements_(statements),
      batch_(batch),
      progress_(size),
      read_next_(read_first) {}

absl::Status PostgresReserve::operator()(const Indices& pending) {
  if (!std::exchange(read_next_, true)) return Insert(Insertable(pending));
  Plan plan;
  if (absl::Status status = MakePlan(pending, plan); !status.ok()) return status;
  if (absl::Status status = Insert(plan.insert); !status.ok()) return status;
  if (absl::Status status = StartAfresh(plan.start_afresh); !status.ok()) return status;
  if (absl::Status status = GrantNext(plan.grant); !status.ok()) return status;
  if (absl::Status status = RenewLeases(plan.renew_lease); !status.ok()) return status;
  return MarkUnknown(plan.mark_unknown);
}

bool PostgresReserve::SendFirst(const Indices& pending) {
  if (read_next_) return SendRead(connection_, statements_.read_to_reserve, IdsOf(batch_, pending));
  const Indices insertable = Sorted(Insertable(pending));
  if (insertable.empty()) return false;
  sent_ = InsertParameters(insertable);
  return connection_.Send(InsertStatement(insertable.size(), AreRelaxed(insertable)), *sent_);
}

PostgresReserve::Indices PostgresReserve::Insertable(const Indices& pending) const {
  Indices insertable;
  insertable.reserve(pending.size());
  for (const std::size_t index : pending) {
    if (!batch_.op(index).only_existing) insertable.push_back(index);
  }
  return insertable;
}

absl::Status PostgresReserve::MakePlan(const Indices& pending, Plan& plan) {
  PostgresArray ids = IdsOf(batch_, pending);
  auto rows = ReadRows(connection_, statements_.read_to_reserve, ids);
  if (!rows.ok()) return rows.status();
  if (std::exchange(first_look_, false)) known_ += rows->size();
  Indices missing;
  for (const std::size_t index : pending) {
    const ReserveOp& op = batch_.op(index);
    const auto row = rows->find(op.id);
    if (row == rows->end()) {
      // The insert itself checks the window, by the clock of its own moment.
      const bool decided = progress_[index].insert_tried || op.only_existing;
      (decided ? missing : plan.insert).push_back(index);
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
absl::Status PostgresReserve::PlanMissing(const Indices& missing, Plan& plan) {
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

void PostgresReserve::Add(Step step, Plan& plan) {
  switch (step.decision.action) {
    case ReserveAction::kAnswer:
      batch_.Settle(step.index, std::move(step.decision.answer));
      return;
    case ReserveAction::kInsert:
      plan.insert.push_back(step.index);
      return;
    case ReserveAction::kStartAfresh:
      plan.start_afresh.push_back(std::move(step));
      return;
    case ReserveAction::kGrant:
    case ReserveAction::kGrantRecovery:
      plan.grant.push_back(std::move(step));
      return;
    case ReserveAction::kRenewLease:
      plan.renew_lease.push_back(std::move(step));
      return;
    case ReserveAction::kMarkUnknown:
      plan.mark_unknown.push_back(std::move(step));
      return;
  }
}

// Returns: id, created_at, lease_until, expires_at, now.
absl::Status PostgresReserve::Insert(const Indices& indices) {
  if (indices.empty()) return absl::OkStatus();
  // A plan may have put keys that were missing behind others.
  const Indices sorted = Sorted(indices);
  const bool relaxed = AreRelaxed(sorted);
  const PostgresParameters parameters = sent_ ? *std::move(sent_) : InsertParameters(sorted);
  sent_.reset();
  const auto result = connection_.Execute(InsertStatement(sorted.size(), relaxed), parameters);
  if (!result.ok()) return result.status();
  for (int row = 0; row < result->rows(); ++row) SettleInserted(*result, row, 0, relaxed);
  EndInsert(sorted);
  return absl::OkStatus();
}

PostgresReserve::Indices PostgresReserve::Sorted(Indices indices) const {
  std::sort(indices.begin(), indices.end(),
            [this](std::size_t a, std::size_t b) { return batch_.op(a).id < batch_.op(b).id; });
  return indices;
}

bool PostgresReserve::AreRelaxed(const Indices& indices) const {
  return std::all_of(indices.begin(), indices.end(),
                     [this](std::size_t index) { return batch_.op(index).relaxed; });
}

const PostgresStatement& PostgresReserve::InsertStatement(std::size_t size, bool relaxed) const {
  if (size == 1) return relaxed ? statements_.insert_one_relaxed : statements_.insert_one;
  const bool few = size <= PostgresStatements::kMaxFew;
  if (relaxed) return few ? statements_.insert_few_relaxed : statements_.insert_relaxed;
  return few ? statements_.insert_few : statements_.insert;
}

PostgresParameters PostgresReserve::InsertParameters(const Indices& sorted) {
  if (sorted.size() > 1) return BeginInsert(sorted);
  const std::size_t index = sorted.front();
  progress_[index].token = Uuid::Random();
  return OneParameters(batch_.op(index), progress_[index].token);
}

PostgresParameters PostgresReserve::BeginInsert(const Indices& indices) {
  std::vector<const ReserveOp*> ops;
  PostgresArray tokens(PostgresType::kUuid, indices.size());
  ops.reserve(indices.size());
  for (const std::size_t index : indices) {
    ops.push_back(&batch_.op(index));
    progress_[index].token = Uuid::Random();
    tokens.AppendUuid(progress_[index].token);
  }
  return ManyParameters(ops, std::move(tokens));
}

void PostgresReserve::SettleInserted(const PostgresResult& result, int row, int column,
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

void PostgresReserve::EndInsert(const Indices& indices) {
  for (const std::size_t index : indices) progress_[index].insert_tried = true;
  read_next_ = true;
}

// Returns what an insert returns. The window is checked by the clock of its own moment.
absl::Status PostgresReserve::StartAfresh(const std::vector<Step>& steps) {
  if (steps.empty()) return absl::OkStatus();
  Indices indices;
  PostgresArray tokens(PostgresType::kUuid);
  PostgresArray attempts(PostgresType::kInt4);
  for (const Step& step : steps) {
    progress_[step.index].was_forgotten = true;
    indices.push_back(step.index);
    tokens.AppendUuid(step.decision.guard.token);
    attempts.AppendInt4(static_cast<std::int32_t>(step.decision.guard.attempt));
  }
  PostgresParameters parameters = BeginInsert(indices);
  parameters.Add(tokens);
  parameters.Add(attempts);
  const auto result = connection_.Execute(statements_.start_afresh, parameters);
  if (!result.ok()) return result.status();
  for (int row = 0; row < result->rows(); ++row) SettleInserted(*result, row, 0);
  return absl::OkStatus();
}

// Returns: id, lease_until, expires_at, now.
absl::Status PostgresReserve::GrantNext(const std::vector<Step>& steps) {
  if (steps.empty()) return absl::OkStatus();
  PostgresArray states(PostgresType::kInt2);
  PostgresArray leases_until(PostgresType::kTimestamptz);
  PostgresArray tokens(PostgresType::kUuid);
  PostgresArray request_tokens(PostgresType::kUuid);
  PostgresArray leases(PostgresType::kInterval);
  PostgresArray retentions(PostgresType::kInterval);
  for (const Step& step : steps) {
    const ReserveOp& op = batch_.op(step.index);
    progress_[step.index].token = Uuid::Random();
    states.AppendInt2(ToProto(step.state));
    leases_until.AppendTime(step.lease_until);
    tokens.AppendUuid(progress_[step.index].token);
    AppendOptional(op.request_token, request_tokens);
    leases.AppendInterval(op.lease);
    if (step.decision.action == ReserveAction::kGrantRecovery) {
      retentions.AppendInterval(op.retention);
    } else {
      retentions.AppendNull();
    }
  }
  PostgresParameters parameters = GuardsOf(steps);
  for (const PostgresArray* const column :
       {&states, &leases_until, &tokens, &request_tokens, &leases, &retentions}) {
    parameters.Add(*column);
  }
  const auto result = connection_.Execute(statements_.grant, parameters);
  if (!result.ok()) return result.status();
  for (int row = 0; row < result->rows(); ++row) {
    const std::size_t index = batch_.IndexOf(result->GetUuid(row, 0));
    const auto step = std::find_if(steps.begin(), steps.end(),
                                   [index](const Step& s) { return s.index == index; });
    Grant grant = step->decision.grant;
    grant.lease_expires_at = result->Time(row, 1);
    grant.expires_at = result->Time(row, 2);
    batch_.Settle(
        index, Verdict(ToReserved(std::move(grant), progress_[index].token, result->Time(row, 3))));
  }
  return absl::OkStatus();
}

// Returns: id, lease_until, expires_at, now.
absl::Status PostgresReserve::RenewLeases(const std::vector<Step>& steps) {
  if (steps.empty()) return absl::OkStatus();
  PostgresArray leases(PostgresType::kInterval);
  for (const Step& step : steps) leases.AppendInterval(batch_.op(step.index).lease);
  PostgresParameters parameters = GuardsOf(steps);
  parameters.Add(leases);
  const auto result = connection_.Execute(statements_.renew_lease, parameters);
  if (!result.ok()) return result.status();
  for (int row = 0; row < result->rows(); ++row) {
    const std::size_t index = batch_.IndexOf(result->GetUuid(row, 0));
    const auto step = std::find_if(steps.begin(), steps.end(),
                                   [index](const Step& s) { return s.index == index; });
    Grant grant = step->decision.grant;
    grant.lease_expires_at = result->Time(row, 1);
    batch_.Settle(index, Verdict(ToReserved(std::move(grant), step->decision.grant.token,
                                            result->Time(row, 3))));
  }
  return absl::OkStatus();
}

// Returns: id, lease_until.
absl::Status PostgresReserve::MarkUnknown(const std::vector<Step>& steps) {
  if (steps.empty()) return absl::OkStatus();
  const auto result = connection_.Execute(statements_.mark_unknown, GuardsOf(steps));
  if (!result.ok()) return result.status();
  for (int row = 0; row < result->rows(); ++row) {
    const std::size_t index = batch_.IndexOf(result->GetUuid(row, 0));
    const auto step = std::find_if(steps.begin(), steps.end(),
                                   [index](const Step& s) { return s.index == index; });
    auto unknown = std::get<OutcomeUnknown>(*step->decision.answer);
    unknown.since = result->Time(row, 1);
    batch_.Settle(index, Verdict(std::move(unknown)));
  }
  return absl::OkStatus();
}

// $1 ids, $2 tokens, $3 attempts: the values that the rows must still have.
PostgresParameters PostgresReserve::GuardsOf(const std::vector<Step>& steps) const {
  PostgresArray ids(PostgresType::kUuid);
  PostgresArray tokens(PostgresType::kUuid);
  PostgresArray attempts(PostgresType::kInt4);
  for (const Step& step : steps) {
    ids.AppendUuid(batch_.op(step.index).id);
    tokens.AppendUuid(step.decision.guard.token);
    attempts.AppendInt4(static_cast<std::int32_t>(step.decision.guard.attempt));
  }
  PostgresParameters parameters;
  parameters.Add(ids);
  parameters.Add(tokens);
  parameters.Add(attempts);
  return parameters;
}

}  // namespace idempotency::internal
