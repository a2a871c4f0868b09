#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_RESULT_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_RESULT_H_

#include <cstdint>
#include <optional>
#include <pqxx/result>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "postgres/watched_connection.h"

namespace idempotency::internal {

// Rows of one answer. A column is read as the type that its statement gives it;
// a NULL, a column that is not there, or a value of another form reads as that
// type's zero (use IsNull where NULL has a meaning). Thread-compatible.
class PostgresResult {
 public:
  // A result is a counted reference: there is nothing to move.
  explicit PostgresResult(const pqxx::result& result) : result_(result) {}

  // Of one statement of a pipeline; not null.
  explicit PostgresResult(PipelinedRows rows) : pipelined_(std::move(rows)) {}

  int rows() const {
    return pipelined_ ? PQntuples(pipelined_.get()) : static_cast<int>(result_.size());
  }
  // True for a column that is not there.
  bool IsNull(int row, int column) const;

  // As the server writes it. Valid as long as the result.
  std::string_view View(int row, int column) const;
  std::string Text(int row, int column) const { return std::string(View(row, column)); }
  std::string Bytea(int row, int column) const;
  Uuid GetUuid(int row, int column) const;
  bool Bool(int row, int column) const { return View(row, column) == "t"; }
  std::int64_t Integer(int row, int column) const;  // int2, int4, int8
  // A timestamptz, of a connection in ISO style at UTC.
  absl::Time Time(int row, int column) const;
  // nullopt for one that another program may have written, such as 'infinity'.
  std::optional<absl::Time> TimeIfValid(int row, int column) const;
  // The elements of a text[], those of many dimensions row by row; empty for
  // NULL.
  std::vector<std::string> TextArray(int row, int column) const;

 private:
  // One of the two.
  pqxx::result result_;
  PipelinedRows pipelined_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_RESULT_H_
