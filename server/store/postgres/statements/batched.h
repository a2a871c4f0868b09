#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_BATCHED_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_BATCHED_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/statements/place_statements.h"
#include "server/store/postgres/statements/sql_sections.h"

namespace idempotency::internal {

// All SQL of the store. The shapes were measured; each has a reason:
//   - `id = ANY($1)` with `array_position`, never `UPDATE … FROM unnest`: on a
//     table that was analysed while small the latter scans the whole table.
//   - ids come sorted, so that rows are locked in one order; and an insert leaves out
//     records that exist, so that it does not wait for a row that another call has
//     locked. So calls do not wait for each other crosswise.
//   - the clock is read again in SET and in WHERE, after a wait for a row that was
//     changed meanwhile. Where it was only locked Postgres keeps what it had
//     computed: a lease is shorter by the wait then, and the answer shows it.
//   - a change matches the token, and where it was decided from a row that was
//     read, that row's token, attempt, state and lease too: by id alone it could
//     hit a row that was swept and inserted again for another request.
//   - each statement is a transaction of its own.
//
// Parameters and columns are named beside each statement, in batched/.
struct PostgresStatements {
  // `clock_sql` is an expression for the store's time.
  explicit PostgresStatements(const std::string& clock_sql);
  static SqlSections Sections(const std::string& clock_sql);

  // Reserve.
  PostgresStatement insert;
  // The same for one, whose parameters are no arrays.
  PostgresStatement insert_one;
  // The same two, whose commits do not wait for the disk, nor for a standby.
  PostgresStatement insert_relaxed;
  PostgresStatement insert_one_relaxed;
  // The records, and of the replies those that are small; then what has another one.
  PostgresStatement read_to_reserve;
  PostgresStatement read_large_to_reserve;
  PostgresStatement read_clock;
  PostgresStatement start_afresh;
  PostgresStatement grant;
  PostgresStatement renew_lease;
  PostgresStatement mark_unknown;

  PostgresStatement complete;
  PostgresStatement complete_one;
  PostgresStatement release;
  PostgresStatement extend;
  PostgresStatement extend_with_checkpoint;
  // complete and insert in one, for SharedCommit.
  PostgresStatement complete_and_insert;
  // For the three before these: the rows of ids that were not hit.
  PostgresStatement read_to_settle;

  PostgresStatement read_whole;
  PostgresStatement read_whole_confirmed;

  // For those that change rows: which of the rows others have locked.
  PostgresStatement find_locked;

  // Sweep.
  PostgresStatement sweep_ordered;
  PostgresStatement sweep_hashed;
  PostgresStatement read_to_drop;
  PostgresStatement drop_replies;

  // Administrators. Walks by index, one for each ListWalk, and what they change with its entry
  // of the audit log.
  PostgresStatement list_namespace;
  PostgresStatement list_scope;
  PostgresStatement list_unknown;
  PostgresStatement list_children;
  PostgresStatement resolve;
  PostgresStatement purge_one;
  PostgresStatement purge_scope;
  PostgresStatement purge_namespace;
  PostgresStatement count_scope;
  PostgresStatement count_namespace;
  PostgresStatement read_contents;
  PostgresStatement reseal;
  PostgresStatement read_audit;
  PostgresStatement read_newest_audit;
  PostgresStatement read_audit_of_record;

  // Of those walks, where a row of one cannot be read.
  PlaceStatements places;

  // The bounds of namespaces.
  PostgresStatement end_unknown;
  PostgresStatement measure_usage;

  // The begin of a connection; the check of its schema; the test commit.
  PostgresStatement begin_session;
  PostgresStatement read_schema;
  PostgresStatement probe_commit;
  PostgresStatement inspect;

  // Each of these: the schema must be able to plan them.
  const std::vector<PostgresStatement>& all() const { return all_; }

 private:
  explicit PostgresStatements(SqlSections sql);

  // Behind the others, which are noted as they are made.
  std::vector<PostgresStatement> all_;
};

// The advisory lock of a schema that every connection of a store holds, shared, as long as
// it is there: an expression for its key, where the schema is the current one.
inline constexpr std::string_view kPostgresServeLock =
    "hashtextextended('idempotency serve ' || current_schema, 0)";

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_BATCHED_H_
