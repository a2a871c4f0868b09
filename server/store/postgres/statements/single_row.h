#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SINGLE_ROW_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SINGLE_ROW_H_

#include <string>
#include <vector>

#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/statements/place_statements.h"
#include "server/store/postgres/statements/sql_sections.h"

namespace idempotency::internal {

// The SQL of PostgresStatementMode::kSingleRow, for records that are distributed by id:
//   - what writes names one record's id, one table and no other row; so it concerns one node, and
//     cannot deadlock with another.
//   - values are computed here, also times: a distributed server evaluates no clock beside a
//     column, and nodes have clocks of their own. The time is that of the node that the connection
//     reaches, read before the records.
//   - what changes a record was decided from a row that was read, and matches what the decision
//     depends on: token, attempt, state and times. A new life of a record has another token.
//   - what reads several records (the walks) locks none.
//
// Parameters and columns are named beside each statement, in single_row/.
struct SingleRowStatements {
  // `clock_sql` is an expression for the store's time.
  explicit SingleRowStatements(const std::string& clock_sql);
  static SqlSections Sections(const std::string& clock_sql);

  PostgresStatement read_clock;
  // One record. The second one's commit waits until what was read is on the standby, as
  // PostgresStatements::read_to_reserve.
  PostgresStatement read;
  PostgresStatement read_confirmed;
  // Confirmed too; of a record, what decisions about a known one depend on.
  PostgresStatement read_to_settle;
  PostgresStatement read_checkpoint;

  // Reserve.
  PostgresStatement insert;
  PostgresStatement start_afresh;
  PostgresStatement clear_old_checkpoint;
  PostgresStatement grant;
  PostgresStatement renew_lease;
  PostgresStatement mark_unknown;

  PostgresStatement complete;
  PostgresStatement release;
  PostgresStatement extend;
  PostgresStatement store_checkpoint;

  // The sweep and administrators.
  PostgresStatement visit_ordered;
  PostgresStatement visit_hashed;
  PostgresStatement remove;
  PostgresStatement entomb;
  PostgresStatement watch;
  PostgresStatement drop_reply;
  PostgresStatement remove_checkpoint;
  PostgresStatement resolve;
  PostgresStatement replace_reply;
  PostgresStatement replace_checkpoint;
  PostgresStatement note_audit;

  PlaceStatements places;
  // Of checkpoints.
  PostgresStatement walk_checkpoints;
  PostgresStatement measure_usage_in_scopes;
  PostgresStatement measure_usage_in_scope;

  // The gauges.
  PostgresStatement open_for_long;
  PostgresStatement newest_ordered;
  PostgresStatement newest_hashed;
  PostgresStatement count_unknown;

  // Each of these: the schema must be able to plan them.
  const std::vector<PostgresStatement>& all() const { return all_; }

 private:
  explicit SingleRowStatements(SqlSections sql);

  // Behind the others, which are noted as they are made.
  std::vector<PostgresStatement> all_;
};

// Columns of the visits of a sweep.
namespace visit_column {
enum : int {
  kId,
  kCreatedAt,
  kToken,
  kAttempt,
  kState,
  kRequireRecovery,
  kLeaseUntil,
  kExpiresAt,
  kReplyUntil,
  kTombstoneUntil,
  kReplyDropped,
  kEntombed,
  kOpenForLong,
  kWatched,
  kReplyBytes,
};
}  // namespace visit_column

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SINGLE_ROW_H_
