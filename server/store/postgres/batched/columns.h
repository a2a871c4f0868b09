#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_COLUMNS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_COLUMNS_H_

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/connection/parameters.h"

namespace idempotency::internal {

// The parameters of a statement for many rows are its columns: an array each, with a value of each
// row, in the order of the rows.

inline void AppendValue(const Uuid& value, PostgresArray& array) { array.AppendUuid(value); }
inline void AppendValue(bool value, PostgresArray& array) { array.AppendBool(value); }
inline void AppendValue(std::int16_t value, PostgresArray& array) { array.AppendInt2(value); }
inline void AppendValue(std::int32_t value, PostgresArray& array) { array.AppendInt4(value); }
inline void AppendValue(absl::Time value, PostgresArray& array) { array.AppendTime(value); }
inline void AppendValue(absl::Duration value, PostgresArray& array) { array.AppendInterval(value); }
// A text or a bytea.
inline void AppendValue(std::string_view value, PostgresArray& array) { array.AppendBytes(value); }
template <typename Value>
void AppendValue(const std::optional<Value>& value, PostgresArray& array) {
  if (value) {
    AppendValue(*value, array);
  } else {
    array.AppendNull();
  }
}

// `value_of(row)` returns a value of that type, or an optional one: NULL.
template <typename Rows, typename ValueOf>
PostgresArray Column(PostgresType type, const Rows& rows, const ValueOf& value_of) {
  PostgresArray column(type, std::size(rows));
  for (const auto& row : rows) AppendValue(value_of(row), column);
  return column;
}

// The four columns of keys. `key_of(row)` returns a pointer, null: NULL.
template <typename Rows, typename KeyOf>
void AddKeyColumns(const Rows& rows, const KeyOf& key_of, PostgresParameters& parameters) {
  for (std::string RecordKey::*const part :
       {&RecordKey::name_space, &RecordKey::scope, &RecordKey::operation, &RecordKey::key}) {
    parameters.Add(Column(PostgresType::kText, rows,
                          [&key_of, part](const auto& row) -> std::optional<std::string_view> {
                            const RecordKey* const key = key_of(row);
                            if (key == nullptr) return std::nullopt;
                            return key->*part;
                          }));
  }
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_BATCHED_COLUMNS_H_
