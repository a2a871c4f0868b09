#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_OPERATION_PARAMETERS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_OPERATION_PARAMETERS_H_

#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/connection/parameters.h"

namespace idempotency::internal {

// Parts of the parameters of a statement for one operation, none of which is an array. What is not
// there is NULL.
void AddOptional(const std::optional<Uuid>& value, PostgresParameters& parameters);
void AddOptional(const std::optional<absl::Time>& value, PostgresParameters& parameters);
void AddOptional(const std::optional<absl::Duration>& value, PostgresParameters& parameters);
// The four parts.
void AddKey(const RecordKey& key, PostgresParameters& parameters);
void AddParent(const std::optional<RecordKey>& parent, PostgresParameters& parameters);
void AddLabels(const std::map<std::string, std::string>& labels, PostgresParameters& parameters);

// $1-$6 of the statements that match a record by its holder: id, token, the four parts.
template <typename Op>
PostgresParameters HolderParameters(const Op& op) {
  PostgresParameters parameters;
  parameters.Add(op.id);
  parameters.Add(op.token);
  AddKey(op.key, parameters);
  return parameters;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_OPERATION_PARAMETERS_H_
