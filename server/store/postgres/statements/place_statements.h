#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_PLACE_STATEMENTS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_PLACE_STATEMENTS_H_

#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/statements/sql_sections.h"

namespace idempotency::internal {

// The places of the records of a walk: a part of both kinds of statements (ranges_sql.cc).
struct PlaceStatements {
  // `sql` contains kRangesSql.
  explicit PlaceStatements(SqlSections& sql)
      : in_namespace(sql.Statement("places_in_namespace")),
        unknown(sql.Statement("places_of_unknown")),
        children(sql.Statement("places_of_children")) {}

  // Also of a scope: up to its last place.
  PostgresStatement in_namespace;
  PostgresStatement unknown;
  PostgresStatement children;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_PLACE_STATEMENTS_H_
