#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SINGLE_ROW_SQL_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SINGLE_ROW_SQL_H_

#include <string_view>

namespace idempotency::internal::single_row_sql {

// The SQL of SingleRowStatements, in the form of SqlSections: each subject is in the file of its
// name, NAME_sql.cc. Parameters and columns are named beside each statement.
extern const std::string_view kExpressions;
extern const std::string_view kReserve;
extern const std::string_view kSettle;
extern const std::string_view kSweep;
extern const std::string_view kAdmin;
extern const std::string_view kGauges;

}  // namespace idempotency::internal::single_row_sql

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SINGLE_ROW_SQL_H_
