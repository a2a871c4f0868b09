#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_RESULT_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <pqxx/result>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "postgres/watched_connection.h"
#include "server/store/postgres/connection/parameters.h"

namespace idempotency::internal {

// Rows of one answer, in text or binary form. A column is read as the type that its statement gives
// it; a NULL, a column that is not there, or a value of another form reads as that
// type's zero (use IsNull where NULL has a meaning). Thread-compatible.
class PostgresResult {
 public:
  // A result is a counted reference: there is nothing to move.
  explicit PostgresResult(const pqxx::result& result)
      : result_(result),
        rows_(static_cast<int>(result.size())),
        columns_(static_cast<int>(result.columns())) {}

  // The result of one statement of a pipeline; not null.
  explicit PostgresResult(PipelinedRows rows)
      : pipelined_(std::move(rows)),
        rows_(PQntuples(pipelined_.get())),
        columns_(PQnfields(pipelined_.get())) {}

  int rows() const { return rows_; }
  // True for a column that is not there.
  bool IsNull(int row, int column) const;

  // As the server writes it. Valid as long as the result.
  std::string_view View(int row, int column) const;
  std::string Text(int row, int column) const;
  std::string Bytea(int row, int column) const;
  // The length of a bytea.
  std::size_t ByteaSize(int row, int column) const;
  Uuid GetUuid(int row, int column) const;
  bool Bool(int row, int column) const;
  std::int64_t Integer(int row, int column) const;  // int2, int4, int8
  // A timestamptz, of a connection in ISO style at UTC.
  absl::Time Time(int row, int column) const;
  // nullopt for one that another program may have written, such as 'infinity'.
  std::optional<absl::Time> TimeIfValid(int row, int column) const;
  // The elements of a text[] in text form, those of many dimensions row by row; empty for
  // NULL.
  std::vector<std::string> TextArray(int row, int column) const;

  // Whether a value in binary form was of another type than the one that it was read as.
  bool misread() const { return misread_; }

 private:
  bool Has(int row, int column) const { return row < rows_ && column < columns_; }
  bool IsBinary(int column) const;
  // Of a column in binary form that has one of `types`: the value's bytes, of which there are
  // `size`. Empty for a NULL, and for every other one, which is misread.
  static constexpr std::size_t kAnySize = static_cast<std::size_t>(-1);
  std::string_view Binary(int row, int column, std::initializer_list<PostgresType> types,
                          std::size_t size = kAnySize) const;

  // One of the two, and its size.
  pqxx::result result_;
  PipelinedRows pipelined_;
  int rows_;
  int columns_;
  mutable bool misread_ = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_RESULT_H_
