#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_PARAMETERS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_PARAMETERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// The OIDs of Postgres' types (catalog/pg_type.dat); they never change.
enum class PostgresType : std::uint32_t {
  kBool = 16,
  kBytea = 17,
  kInt8 = 20,
  kInt2 = 21,
  kInt4 = 23,
  kText = 25,
  kVarchar = 1043,
  kTimestamptz = 1184,
  kInterval = 1186,
  kUuid = 2950,
};

// One array in Postgres' binary form, of one dimension. Append only values of
// its type. An array of only NULLs is sent as an empty one: unnest() and
// subscripts return NULLs for that too. Thread-compatible.
class PostgresArray {
 public:
  // Has memory for `expected` elements; more may follow.
  explicit PostgresArray(PostgresType type, std::size_t expected = 0);

  std::size_t size() const { return static_cast<std::size_t>(size_); }

  void AppendNull();
  void AppendBytes(std::string_view value);  // kBytea, kText
  void AppendUuid(const Uuid& value);
  void AppendBool(bool value);
  void AppendInt2(std::int16_t value);
  void AppendInt4(std::int32_t value);
  void AppendTime(absl::Time value);          // to the microsecond, rounded down
  void AppendInterval(absl::Duration value);  // to the microsecond, rounded down

  std::string Encode() &&;

 private:
  PostgresType type_;
  std::int32_t size_ = 0;
  std::int32_t nulls_ = 0;
  // The elements, after room for the header.
  std::string bytes_;
};

// The parameters of one statement, $1 first, all in binary form: no copy is
// escaped, parsed or doubled in size as hex. Thread-compatible.
class PostgresParameters {
 public:
  PostgresParameters() { values_.reserve(kUsual); }

  void Add(PostgresArray array) { values_.push_back(std::move(array).Encode()); }
  void Add(const Uuid& value);
  void Add(absl::Time value);
  void Add(std::int32_t value);
  void AddInt2(std::int16_t value);
  void AddInt8(std::int64_t value);
  void AddBool(bool value) { values_.emplace_back(1, value ? '\1' : '\0'); }
  void AddInterval(absl::Duration value);  // to the microsecond, rounded down
  // Not within a transaction, but by PostgresConnection::ExecuteEach.
  void AddNull();
  // A text or a bytea.
  void AddBytes(std::string_view value) { values_.emplace_back(value); }

  // Those of another statement, after these.
  void Append(PostgresParameters others);

  const std::vector<std::string>& values() const { return values_; }
  bool has_nulls() const { return !nulls_.empty(); }
  // Empty at the places of NULLs.
  std::vector<std::optional<std::string_view>> Nullable() const;

 private:
  // Statements of the store have no more.
  static constexpr std::size_t kUsual = 32;

  std::vector<std::string> values_;
  // The places of NULLs, ascending.
  std::vector<std::size_t> nulls_;
};

// Microseconds since 2000-01-01 UTC: a timestamptz in binary form.
std::int64_t ToPostgresMicros(absl::Time time);
absl::Time FromPostgresMicros(std::int64_t micros);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_CONNECTION_PARAMETERS_H_
