#include "server/store/postgres/connection/parameters.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace idempotency::internal {
namespace {

// 2000-01-01 UTC, from which Postgres counts.
constexpr std::int64_t kPostgresEpochUnixMicros = 946'684'800'000'000;

template <typename Integer>
std::array<char, sizeof(Integer)> BigEndian(Integer value) {
  std::array<char, sizeof(Integer)> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * (bytes.size() - 1 - i)));
  }
  return bytes;
}

template <std::size_t kSize>
std::string_view View(const std::array<char, kSize>& bytes) {
  return {bytes.data(), bytes.size()};
}

// In microseconds, days and months, which Postgres keeps apart: the latter are not used here.
std::array<char, 16> IntervalBytes(absl::Duration value) {
  std::array<char, 16> bytes{};
  const auto micros = BigEndian(absl::ToInt64Microseconds(value));
  std::copy(micros.begin(), micros.end(), bytes.begin());
  return bytes;
}

// The size of a value in an array, where its type determines it; otherwise an assumed size.
std::size_t SizeOf(PostgresType type) {
  switch (type) {
    case PostgresType::kBool:
      return 1;
    case PostgresType::kInt2:
      return 2;
    case PostgresType::kInt4:
      return 4;
    case PostgresType::kInt8:
    case PostgresType::kTimestamptz:
      return 8;
    case PostgresType::kInterval:
    case PostgresType::kUuid:
      return 16;
    case PostgresType::kBytea:
    case PostgresType::kText:
    case PostgresType::kVarchar:
      break;
  }
  return 32;
}

// Of an array: dimensions, whether there are NULLs, the type; the number of elements and the first
// index, which one without a dimension lacks.
constexpr std::size_t kEmptyHeaderBytes = 12;
constexpr std::size_t kHeaderBytes = 20;

std::string_view AsBytes(const Uuid& uuid) {
  return {reinterpret_cast<const char*>(uuid.bytes().data()), uuid.bytes().size()};
}

}  // namespace

std::int64_t ToPostgresMicros(absl::Time time) {
  return absl::ToUnixMicros(time) - kPostgresEpochUnixMicros;
}

absl::Time FromPostgresMicros(std::int64_t micros) {
  return absl::FromUnixMicros(kPostgresEpochUnixMicros) + absl::Microseconds(micros);
}

PostgresArray::PostgresArray(PostgresType type, std::size_t expected) : type_(type) {
  bytes_.reserve(kHeaderBytes + expected * (sizeof(std::int32_t) + SizeOf(type)));
  bytes_.resize(kHeaderBytes);
}

void PostgresArray::AppendNull() {
  ++nulls_;
  ++size_;
  bytes_.append(View(BigEndian(std::int32_t{-1})));
}

void PostgresArray::AppendBytes(std::string_view value) {
  ++size_;
  const auto length = BigEndian(static_cast<std::int32_t>(value.size()));
  const std::size_t at = bytes_.size();
  bytes_.resize(at + length.size() + value.size());
  std::copy(value.begin(), value.end(),
            std::copy(length.begin(), length.end(), bytes_.data() + at));
}

void PostgresArray::AppendUuid(const Uuid& value) { AppendBytes(AsBytes(value)); }

void PostgresArray::AppendBool(bool value) { AppendBytes({value ? "\1" : "\0", 1}); }

void PostgresArray::AppendInt2(std::int16_t value) { AppendBytes(View(BigEndian(value))); }

void PostgresArray::AppendInt4(std::int32_t value) { AppendBytes(View(BigEndian(value))); }

void PostgresArray::AppendTime(absl::Time value) {
  AppendBytes(View(BigEndian(ToPostgresMicros(value))));
}

void PostgresArray::AppendInterval(absl::Duration value) {
  AppendBytes(View(IntervalBytes(value)));
}

std::string PostgresArray::Encode() && {
  const bool empty = nulls_ == size_;
  const std::array<std::int32_t, 5> header = {empty ? 0 : 1, nulls_ > 0 && !empty ? 1 : 0,
                                              static_cast<std::int32_t>(type_), size_, 1};
  auto at = bytes_.begin();
  for (const std::int32_t number : header) {
    const auto bytes = BigEndian(number);
    at = std::copy(bytes.begin(), bytes.end(), at);
  }
  if (empty) bytes_.resize(kEmptyHeaderBytes);
  return std::move(bytes_);
}

void PostgresParameters::Add(const Uuid& value) { values_.emplace_back(AsBytes(value)); }

void PostgresParameters::Add(absl::Time value) {
  AddBytes(View(BigEndian(ToPostgresMicros(value))));
}

void PostgresParameters::AddInt2(std::int16_t value) { AddBytes(View(BigEndian(value))); }

void PostgresParameters::AddInt8(std::int64_t value) { AddBytes(View(BigEndian(value))); }

void PostgresParameters::AddInterval(absl::Duration value) { AddBytes(View(IntervalBytes(value))); }

void PostgresParameters::AddNull() {
  nulls_.push_back(values_.size());
  values_.emplace_back();
}

std::vector<std::optional<std::string_view>> PostgresParameters::Nullable() const {
  std::vector<std::optional<std::string_view>> nullable(values_.begin(), values_.end());
  for (const std::size_t place : nulls_) nullable[place].reset();
  return nullable;
}

void PostgresParameters::Append(PostgresParameters others) {
  values_.insert(values_.end(), std::make_move_iterator(others.values_.begin()),
                 std::make_move_iterator(others.values_.end()));
}

void PostgresParameters::Add(std::int32_t value) { AddBytes(View(BigEndian(value))); }

}  // namespace idempotency::internal
