#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SQL_SECTIONS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SQL_SECTIONS_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

#include "server/store/postgres/connection/connection.h"

namespace idempotency::internal {

// SQL in sections that have names. One is a statement, or a piece of statements:
//
//   -- piece: place
//   array_position($1::uuid[], t.id)
//
//   -- statement: renew_lease
//   -- $1 ids, $2 leases. Returns id.
//   UPDATE records t SET lease_until = {now} + ($2::interval[])[{place}]
//   WHERE t.id = ANY($1::uuid[]) RETURNING t.id
//
// {x} stands for the section or the value x, and {x +6} for the same with its parameters behind six
// others: its $1 is $7. No section contains itself. Lines that begin with -- are left out.
// Thread-compatible.
class SqlSections {
 public:
  using Texts = std::map<std::string, std::string, std::less<>>;

  // `values` are named texts that are computed, such as limits.
  SqlSections(absl::Span<const std::string_view> sources, Texts values);

  // The statement is prepared under the name of its section. A name without a section or a value
  // stays in braces, which no server accepts.
  PostgresStatement Statement(std::string_view name, ResultFormat results = ResultFormat::kText);
  // Those that Statement() returned.
  const std::vector<PostgresStatement>& statements() const { return statements_; }
  // In the order of the sources.
  const std::vector<std::string>& statement_names() const { return statement_names_; }

 private:
  std::string Filled(std::string_view sql) const;
  // What stands for {`reference`}.
  std::string Resolved(std::string_view reference) const;

  Texts texts_;
  std::vector<std::string> statement_names_;
  std::vector<PostgresStatement> statements_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_STATEMENTS_SQL_SECTIONS_H_
