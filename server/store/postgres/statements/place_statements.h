#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_PLACE_STATEMENTS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_PLACE_STATEMENTS_H_

#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/statements/sql_sections.h"

namespace idempotency::internal {

// The places of the records of a walk: a part of both kinds of statements (ranges_sql.cc).
struct PlaceStatements {
  // `sql` contains kRangesSql.
  explicit PlaceStatements(SqlSections& sql)
      : in_scopes(sql.Statement("places_in_scopes")),
        in_scope(sql.Statement("places_in_scope")),
        unknown(sql.Statement("places_of_unknown")),
        children(sql.Statement("places_of_children")) {}

  // Of a namespace, up to the end of a scope.
  PostgresStatement in_scopes;
  // Of one scope, up to a place.
  PostgresStatement in_scope;
  PostgresStatement unknown;
  PostgresStatement children;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_PLACE_STATEMENTS_H_
