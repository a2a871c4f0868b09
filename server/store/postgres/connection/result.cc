#include "server/store/postgres/connection/result.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/civil_time.h"

#include "core/absl_view.h"
#include "core/hex.h"
#include "postgres/libpqxx.h"

namespace idempotency::internal {
namespace {

// Neither this nor libpqxx checks whether there is one.
auto FieldAt(const pqxx::result& result, int row, int column) {
  return result[static_cast<pqxx::result::size_type>(row)]
               [static_cast<pqxx::row::size_type>(column)];
}

// The number that the `count` digits at `at` form; -1 if one of those characters is not a digit.
int DigitsAt(std::string_view text, std::size_t at, std::size_t count) {
  int number = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    number = 10 * number + (text[i] - '0');
  }
  return number;
}

// "2026-11-21 14:05:02.123456+00", the form of nearly every time; nullopt for
// any other form. absl::ParseTime takes twenty times as long, and four are read
// for each record.
std::optional<absl::Time> ParseUtc(std::string_view text) {
  constexpr std::size_t kSecondsEnd = 19;
  constexpr std::string_view kUtc = "+00";
  if (text.size() < kSecondsEnd + kUtc.size()) return std::nullopt;
  if (text.substr(text.size() - kUtc.size()) != kUtc) return std::nullopt;
  text.remove_suffix(kUtc.size());
  if (text[4] != '-' || text[7] != '-' || text[10] != ' ' || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const int year = DigitsAt(text, 0, 4);
  const int month = DigitsAt(text, 5, 2);
  const int day = DigitsAt(text, 8, 2);
  const int hour = DigitsAt(text, 11, 2);
  const int minute = DigitsAt(text, 14, 2);
  const int second = DigitsAt(text, 17, 2);
  int micros = 0;
  if (text.size() > kSecondsEnd) {
    const std::size_t digits = text.size() - kSecondsEnd - 1;
    if (text[kSecondsEnd] != '.' || digits > 6) return std::nullopt;
    micros = DigitsAt(text, kSecondsEnd + 1, digits);
    for (std::size_t i = digits; i < 6; ++i) micros *= 10;
  }
  if (year < 0 || month < 0 || day < 0 || hour < 0 || minute < 0 || second < 0 || micros < 0) {
    return std::nullopt;
  }
  const std::int64_t days = absl::CivilDay(year, month, day) - absl::CivilDay(1970, 1, 1);
  const std::int64_t seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
  return absl::FromUnixMicros(seconds * 1'000'000 + micros);
}

// Empty if it is not in hex form.
std::string ByteaIn(std::string_view text) {
  constexpr std::string_view kPrefix = "\\x";
  if (text.substr(0, kPrefix.size()) != kPrefix) return {};
  text.remove_prefix(kPrefix.size());
  if (text.size() % 2 != 0) return {};
  std::string bytes(text.size() / 2, '\0');
  // A bad digit is negative.
  int digits = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = HexValue(text[2 * i]);
    const int low = HexValue(text[2 * i + 1]);
    digits |= high | low;
    bytes[i] = static_cast<char>(high * 16 + low);
  }
  return digits < 0 ? std::string() : bytes;
}

// Of an integer in binary form, which is signed and begins with its highest byte; 0 of none.
std::int64_t IntegerIn(std::string_view bytes) {
  if (bytes.empty()) return 0;
  // The sign extends to all bits above the first byte.
  std::int64_t number = (static_cast<unsigned char>(bytes.front()) ^ 0x80) - 0x80;
  for (const char byte : bytes.substr(1)) number = number * 256 + static_cast<unsigned char>(byte);
  return number;
}

}  // namespace

bool PostgresResult::IsNull(int row, int column) const {
  if (!Has(row, column)) return true;
  if (pipelined_) return PQgetisnull(pipelined_.get(), row, column) != 0;
  return FieldAt(result_, row, column).is_null();
}

std::string_view PostgresResult::View(int row, int column) const {
  if (!Has(row, column)) return {};
  if (pipelined_) {
    // Of a NULL: "".
    return {PQgetvalue(pipelined_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(pipelined_.get(), row, column))};
  }
  const auto field = FieldAt(result_, row, column);
  return {field.c_str(), field.size()};
}

bool PostgresResult::IsBinary(int column) const {
  return pipelined_ && column < columns_ &&
         PQfformat(pipelined_.get(), column) == static_cast<int>(ResultFormat::kBinary);
}

std::string_view PostgresResult::Binary(int row, int column,
                                        std::initializer_list<PostgresType> types,
                                        std::size_t size) const {
  const std::string_view bytes = View(row, column);
  // Most values are not empty, which a NULL is.
  if (bytes.empty() && IsNull(row, column)) return {};
  const auto type = static_cast<PostgresType>(PQftype(pipelined_.get(), column));
  if (std::find(types.begin(), types.end(), type) != types.end() &&
      (size == kAnySize || size == bytes.size())) {
    return bytes;
  }
  misread_ = true;
  return {};
}

std::string PostgresResult::Text(int row, int column) const {
  if (!IsBinary(column)) return std::string(View(row, column));
  return std::string(Binary(row, column, {PostgresType::kText, PostgresType::kVarchar}));
}

bool PostgresResult::Bool(int row, int column) const {
  if (!IsBinary(column)) return View(row, column) == "t";
  const std::string_view byte = Binary(row, column, {PostgresType::kBool}, 1);
  return !byte.empty() && byte.front() != 0;
}

std::string PostgresResult::Bytea(int row, int column) const {
  if (IsBinary(column)) return std::string(Binary(row, column, {PostgresType::kBytea}));
  if (pipelined_) return ByteaIn(View(row, column));
  if (IsNull(row, column)) return {};
  try {
    return ByteaOf(FieldAt(result_, row, column));
  } catch (const std::exception&) {
    return {};
  }
}

std::size_t PostgresResult::ByteaSize(int row, int column) const {
  if (IsBinary(column)) return Binary(row, column, {PostgresType::kBytea}).size();
  const std::size_t size = View(row, column).size();
  // Two digits for each byte, after "\x".
  return size > 2 ? (size - 2) / 2 : 0;
}

Uuid PostgresResult::GetUuid(int row, int column) const {
  if (!IsBinary(column)) return Uuid::Parse(View(row, column)).value_or(Uuid());
  Uuid::Bytes bytes{};
  const std::string_view read = Binary(row, column, {PostgresType::kUuid}, bytes.size());
  std::copy(read.begin(), read.end(), bytes.begin());
  return Uuid(bytes);
}

std::int64_t PostgresResult::Integer(int row, int column) const {
  if (IsBinary(column)) {
    return IntegerIn(
        Binary(row, column, {PostgresType::kInt2, PostgresType::kInt4, PostgresType::kInt8}));
  }
  std::int64_t value = 0;
  return absl::SimpleAtoi(AbslView(View(row, column)), &value) ? value : 0;
}

absl::Time PostgresResult::Time(int row, int column) const {
  return TimeIfValid(row, column).value_or(absl::UnixEpoch());
}

std::optional<absl::Time> PostgresResult::TimeIfValid(int row, int column) const {
  if (IsBinary(column)) {
    const std::string_view bytes =
        Binary(row, column, {PostgresType::kTimestamptz}, sizeof(std::int64_t));
    if (bytes.empty()) return std::nullopt;
    using Limits = std::numeric_limits<std::int64_t>;
    const std::int64_t micros = IntegerIn(bytes);
    // '-infinity' and 'infinity'.
    if (micros == Limits::min() || micros == Limits::max()) return std::nullopt;
    return FromPostgresMicros(micros);
  }
  if (const auto parsed = ParseUtc(View(row, column))) return *parsed;
  absl::Time time;
  if (absl::ParseTime("%Y-%m-%d %H:%M:%E*S%z", AbslView(View(row, column)), &time, nullptr) &&
      absl::InfinitePast() < time && time < absl::InfiniteFuture()) {
    return time;
  }
  return std::nullopt;
}

std::vector<std::string> PostgresResult::TextArray(int row, int column) const {
  if (IsNull(row, column)) return {};
  if (IsBinary(column)) {
    misread_ = true;
    return {};
  }
  try {
    if (pipelined_) return TextArrayIn(PQgetvalue(pipelined_.get(), row, column));
    return TextArrayOf(FieldAt(result_, row, column));
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace idempotency::internal
