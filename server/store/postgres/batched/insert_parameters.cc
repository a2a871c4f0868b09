#include "server/store/postgres/batched/insert_parameters.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"

#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "server/store/postgres/batched/columns.h"
#include "server/store/postgres/records/operation_parameters.h"
#include "server/store/postgres/records/record.h"

namespace idempotency::internal {
namespace {

bool RequiresRecovery(const ReserveOp& op) {
  return op.on_lease_expiry == LeaseExpiry::kRequireRecovery;
}

std::optional<absl::Duration> Tombstone(const ReserveOp& op) {
  return op.tombstone > absl::ZeroDuration() ? std::make_optional(op.tombstone) : std::nullopt;
}

}  // namespace

PostgresParameters InsertManyParameters(const std::vector<const ReserveOp*>& ops,
                                        PostgresArray tokens) {
  PostgresParameters parameters;
  const auto add = [&](PostgresType type, const auto& value_of) {
    parameters.Add(Column(type, ops, [&](const ReserveOp* op) { return value_of(*op); }));
  };
  add(PostgresType::kUuid, [](const ReserveOp& op) { return op.id; });
  AddKeyColumns(
      ops, [](const ReserveOp* op) { return &op->key; }, parameters);
  add(PostgresType::kTimestamptz, [](const ReserveOp& op) { return KeyTime(op.key); });
  add(PostgresType::kInterval, [](const ReserveOp& op) { return op.window; });
  add(PostgresType::kBytea,
      [](const ReserveOp& op) { return EncodeFingerprints(op.fingerprints); });
  add(PostgresType::kBool, RequiresRecovery);
  parameters.Add(std::move(tokens));
  add(PostgresType::kUuid, [](const ReserveOp& op) { return op.request_token; });
  add(PostgresType::kInterval, [](const ReserveOp& op) { return op.lease; });
  add(PostgresType::kInterval, [](const ReserveOp& op) { return op.retention; });
  AddKeyColumns(
      ops, [](const ReserveOp* op) { return op->parent ? &*op->parent : nullptr; }, parameters);
  add(PostgresType::kText, [](const ReserveOp& op) {
    return op.labels.empty() ? std::nullopt : std::make_optional(LabelsToJson(op.labels));
  });
  add(PostgresType::kInterval, [](const ReserveOp& op) { return op.reply_retention; });
  add(PostgresType::kInterval, Tombstone);
  return parameters;
}

PostgresParameters InsertOneParameters(const ReserveOp& op, const Uuid& token) {
  PostgresParameters parameters;
  parameters.Add(op.id);
  AddKey(op.key, parameters);
  AddOptional(KeyTime(op.key), parameters);
  parameters.AddInterval(op.window);
  parameters.AddBytes(EncodeFingerprints(op.fingerprints));
  parameters.AddBool(RequiresRecovery(op));
  parameters.Add(token);
  AddOptional(op.request_token, parameters);
  parameters.AddInterval(op.lease);
  parameters.AddInterval(op.retention);
  AddParent(op.parent, parameters);
  AddLabels(op.labels, parameters);
  AddOptional(op.reply_retention, parameters);
  AddOptional(Tombstone(op), parameters);
  return parameters;
}

}  // namespace idempotency::internal
