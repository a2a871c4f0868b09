#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_DISTRIBUTION_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_DISTRIBUTION_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/options.h"

namespace idempotency::internal {

// The records of a schema on the nodes of Citus, by their ids (docs/scaling.md).

// FAILED_PRECONDITION if the database has no Citus.
absl::Status CheckCitus(PostgresConnection& connection);

// Whether `records` of `schema` is distributed.
absl::StatusOr<bool> IsDistributed(PostgresConnection& connection, const std::string& schema);

// FAILED_PRECONDITION if a node that answers commits before the commit is on its disk, or its
// standby's: the settings of a session do not reach the other nodes. OK without Citus. UNAVAILABLE
// if there is no answer within `timeout`, as while a node is silent.
absl::Status CheckNodesCommit(PostgresConnection& connection, absl::Duration timeout);
// Logs that it was UNAVAILABLE.
void LogSilentNodes(const absl::Status& failure);

// The statements for the schema of `options`: those of `wanted`, else kSingleRow where its records
// are distributed, else kBatched. FAILED_PRECONDITION for batches over distributed records: they
// may deadlock across nodes, and a completion that was answered may read as pending while a node
// is away; or as CheckNodesCommit(). UNAVAILABLE if the server cannot be reached, or the schema
// is being distributed or reverted; a silent node does not prevent the others from serving.
absl::StatusOr<PostgresStatementMode> ChooseStatements(
    const PostgresOptions& options, const std::optional<PostgresStatementMode>& wanted);

// Distributes the tables, in a transaction, on a connection that may, with Citus: records and
// checkpoints by id, the audit log by the record's id, all in one colocation group, so that what
// concerns one record is on one node. The others stay on the coordinator. The trigger of the audit
// log, which Citus cannot have, goes; the privileges of the roles stay.
absl::Status DistributeTables(PostgresConnection& connection, const std::string& schema);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_SCHEMA_DISTRIBUTION_H_
