#include "server/store/postgres/records/operation_parameters.h"

#include "server/store/postgres/records/record.h"

namespace idempotency::internal {

void AddOptional(const std::optional<Uuid>& value, PostgresParameters& parameters) {
  if (value) {
    parameters.Add(*value);
  } else {
    parameters.AddNull();
  }
}

void AddOptional(const std::optional<absl::Time>& value, PostgresParameters& parameters) {
  if (value) {
    parameters.Add(*value);
  } else {
    parameters.AddNull();
  }
}

void AddOptional(const std::optional<absl::Duration>& value, PostgresParameters& parameters) {
  if (value) {
    parameters.AddInterval(*value);
  } else {
    parameters.AddNull();
  }
}

void AddKey(const RecordKey& key, PostgresParameters& parameters) {
  parameters.AddBytes(key.name_space);
  parameters.AddBytes(key.scope);
  parameters.AddBytes(key.operation);
  parameters.AddBytes(key.key);
}

void AddParent(const std::optional<RecordKey>& parent, PostgresParameters& parameters) {
  if (parent) return AddKey(*parent, parameters);
  for (int part = 0; part < 4; ++part) parameters.AddNull();
}

void AddLabels(const std::map<std::string, std::string>& labels, PostgresParameters& parameters) {
  if (labels.empty()) {
    parameters.AddNull();
  } else {
    parameters.AddBytes(LabelsToJson(labels));
  }
}

}  // namespace idempotency::internal
