#include "server/store/postgres_result.h"

#include <exception>
#include <pqxx/pqxx>
#include <utility>

#include "absl/strings/numbers.h"

#include "core/absl_view.h"

namespace idempotency {
namespace {

// Neither this nor libpqxx looks whether there is one.
pqxx::field FieldAt(const pqxx::result& result, int row, int column) {
  return result[static_cast<pqxx::result::size_type>(row)]
               [static_cast<pqxx::row::size_type>(column)];
}

}  // namespace

bool PostgresResult::IsNull(int row, int column) const {
  if (row >= rows() || column >= static_cast<int>(result_.columns())) return true;
  return FieldAt(result_, row, column).is_null();
}

std::string_view PostgresResult::View(int row, int column) const {
  if (IsNull(row, column)) return {};
  const pqxx::field field = FieldAt(result_, row, column);
  return {field.c_str(), field.size()};
}

std::string PostgresResult::Bytea(int row, int column) const {
  if (IsNull(row, column)) return {};
  try {
    return pqxx::binarystring(FieldAt(result_, row, column)).str();
  } catch (const std::exception&) {
    return {};
  }
}

Uuid PostgresResult::GetUuid(int row, int column) const {
  return Uuid::Parse(View(row, column)).value_or(Uuid());
}

std::int64_t PostgresResult::Integer(int row, int column) const {
  std::int64_t value = 0;
  return absl::SimpleAtoi(AbslView(View(row, column)), &value) ? value : 0;
}

absl::Time PostgresResult::Time(int row, int column) const {
  absl::Time time;
  return absl::ParseTime("%Y-%m-%d %H:%M:%E*S%z", AbslView(View(row, column)), &time, nullptr)
             ? time
             : absl::UnixEpoch();
}

std::vector<std::string> PostgresResult::TextArray(int row, int column) const {
  std::vector<std::string> texts;
  if (IsNull(row, column)) return texts;
  try {
    pqxx::array_parser array = FieldAt(result_, row, column).as_array();
    for (auto next = array.get_next(); next.first != pqxx::array_parser::done;
         next = array.get_next()) {
      if (next.first == pqxx::array_parser::string_value) texts.push_back(std::move(next.second));
    }
  } catch (const std::exception&) {
    texts.clear();
  }
  return texts;
}

}  // namespace idempotency
