#include "server/store/postgres_result.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/time/civil_time.h"
#include "postgres/libpqxx.h"

#include "core/absl_view.h"

namespace idempotency::internal {
namespace {

// Neither this nor libpqxx checks whether there is one.
auto FieldAt(const pqxx::result& result, int row, int column) {
  return result[static_cast<pqxx::result::size_type>(row)]
               [static_cast<pqxx::row::size_type>(column)];
}

// "2026-11-21 14:05:02.123456+00", the form of nearly every time; nullopt for
// any other form. absl::ParseTime takes twenty times as long, and four are read
// for each record.
std::optional<absl::Time> ParseUtc(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd dd:dd:dd";
  constexpr std::string_view kUtc = "+00";
  if (text.size() < kForm.size() + kUtc.size()) return std::nullopt;
  std::array<int, 6> parts{};
  std::size_t part = 0;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] != 'd') {
      if (text[i] != kForm[i]) return std::nullopt;
      ++part;
    } else if (text[i] < '0' || text[i] > '9') {
      return std::nullopt;
    } else {
      parts[part] = 10 * parts[part] + (text[i] - '0');
    }
  }
  if (text.substr(text.size() - kUtc.size()) != kUtc) return std::nullopt;
  text.remove_suffix(kUtc.size());
  text.remove_prefix(kForm.size());
  std::int64_t micros = 0;
  if (!text.empty()) {
    if (text.front() != '.' || text.size() > 7) return std::nullopt;
    text.remove_prefix(1);
    for (std::size_t i = 0; i < 6; ++i) {
      const char digit = i < text.size() ? text[i] : '0';
      if (digit < '0' || digit > '9') return std::nullopt;
      micros = 10 * micros + (digit - '0');
    }
  }
  const std::int64_t days =
      absl::CivilDay(parts[0], parts[1], parts[2]) - absl::CivilDay(1970, 1, 1);
  const std::int64_t seconds = ((days * 24 + parts[3]) * 60 + parts[4]) * 60 + parts[5];
  return absl::FromUnixMicros(seconds * 1'000'000 + micros);
}

// Empty if it is not in hex form.
std::string ByteaIn(std::string_view text) {
  constexpr std::string_view kPrefix = "\\x";
  if (text.substr(0, kPrefix.size()) != kPrefix) return {};
  text.remove_prefix(kPrefix.size());
  const auto is_digit = [](unsigned char c) { return absl::ascii_isxdigit(c); };
  if (text.size() % 2 != 0 || !std::all_of(text.begin(), text.end(), is_digit)) return {};
  return absl::HexStringToBytes(AbslView(text));
}

}  // namespace

bool PostgresResult::IsNull(int row, int column) const {
  if (pipelined_) {
    return row >= rows() || column >= PQnfields(pipelined_.get()) ||
           PQgetisnull(pipelined_.get(), row, column) != 0;
  }
  if (row >= rows() || column >= static_cast<int>(result_.columns())) return true;
  return FieldAt(result_, row, column).is_null();
}

std::string_view PostgresResult::View(int row, int column) const {
  if (IsNull(row, column)) return {};
  if (pipelined_) {
    return {PQgetvalue(pipelined_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(pipelined_.get(), row, column))};
  }
  const auto field = FieldAt(result_, row, column);
  return {field.c_str(), field.size()};
}

std::string PostgresResult::Bytea(int row, int column) const {
  if (IsNull(row, column)) return {};
  if (pipelined_) return ByteaIn(View(row, column));
  try {
    return ByteaOf(FieldAt(result_, row, column));
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
  if (const auto parsed = ParseUtc(View(row, column))) return *parsed;
  absl::Time time;
  return absl::ParseTime("%Y-%m-%d %H:%M:%E*S%z", AbslView(View(row, column)), &time, nullptr)
             ? time
             : absl::UnixEpoch();
}

std::vector<std::string> PostgresResult::TextArray(int row, int column) const {
  if (IsNull(row, column)) return {};
  try {
    if (pipelined_) return TextArrayIn(PQgetvalue(pipelined_.get(), row, column));
    return TextArrayOf(FieldAt(result_, row, column));
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace idempotency::internal
