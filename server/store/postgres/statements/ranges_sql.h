#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_RANGES_SQL_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_RANGES_SQL_H_

#include <string_view>

namespace idempotency::internal {

// The ranges of rows that administrators' walks read, and the statements of their places
// (PlaceStatements), for both kinds of statements, in the form of SqlSections.
extern const std::string_view kRangesSql;

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_RANGES_SQL_H_
