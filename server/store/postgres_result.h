#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RESULT_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RESULT_H_

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

#include "core/uuid.h"

namespace idempotency {

// Rows in Postgres' binary form. A column is read as the type that its
// statement gives it; a NULL or a value of another size reads as that type's
// zero (ask IsNull where NULL means something). Thread-compatible.
class PostgresResult {
 public:
  explicit PostgresResult(PGresult* result) : result_(result) {}

  int rows() const { return PQntuples(result_.get()); }
  bool IsNull(int row, int column) const { return PQgetisnull(result_.get(), row, column) != 0; }

  // Valid as long as the result.
  std::string_view Bytes(int row, int column) const;
  std::string Text(int row, int column) const { return std::string(Bytes(row, column)); }
  Uuid GetUuid(int row, int column) const;
  bool Bool(int row, int column) const;
  std::int64_t Integer(int row, int column) const;  // int2, int4, int8
  absl::Time Time(int row, int column) const;
  // A text[] of one dimension; empty for NULL.
  std::vector<std::string> TextArray(int row, int column) const;

  PGresult* get() const { return result_.get(); }
  PGresult* release() { return result_.release(); }

 private:
  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };

  std::unique_ptr<PGresult, Clear> result_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RESULT_H_
