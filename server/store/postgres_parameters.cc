#include "server/store/postgres_parameters.h"

namespace idempotency::internal {
namespace {

// 2000-01-01 UTC, from which Postgres counts.
constexpr std::int64_t kPostgresEpochUnixMicros = 946'684'800'000'000;

template <typename Integer>
void AppendBigEndian(Integer value, std::string& out) {
  for (int shift = 8 * static_cast<int>(sizeof(Integer)) - 8; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> shift));
  }
}

std::string_view AsBytes(const Uuid& uuid) {
  return {reinterpret_cast<const char*>(uuid.bytes().data()), uuid.bytes().size()};
}

}  // namespace

std::int64_t ToPostgresMicros(absl::Time time) {
  return absl::ToUnixMicros(time) - kPostgresEpochUnixMicros;
}

absl::Time FromPostgresMicros(std::int64_t micros) {
  return absl::FromUnixMicros(micros + kPostgresEpochUnixMicros);
}

void PostgresArray::AppendNull() {
  ++nulls_;
  ++size_;
  AppendBigEndian(std::int32_t{-1}, elements_);
}

void PostgresArray::AppendBytes(std::string_view value) {
  ++size_;
  AppendBigEndian(static_cast<std::int32_t>(value.size()), elements_);
  elements_.append(value);
}

void PostgresArray::AppendUuid(const Uuid& value) { AppendBytes(AsBytes(value)); }

void PostgresArray::AppendBool(bool value) { AppendBytes({value ? "\1" : "\0", 1}); }

void PostgresArray::AppendInt2(std::int16_t value) {
  std::string bytes;
  AppendBigEndian(value, bytes);
  AppendBytes(bytes);
}

void PostgresArray::AppendInt4(std::int32_t value) {
  std::string bytes;
  AppendBigEndian(value, bytes);
  AppendBytes(bytes);
}

void PostgresArray::AppendTime(absl::Time value) {
  std::string bytes;
  AppendBigEndian(ToPostgresMicros(value), bytes);
  AppendBytes(bytes);
}

void PostgresArray::AppendInterval(absl::Duration value) {
  std::string bytes;
  AppendBigEndian(absl::ToInt64Microseconds(value), bytes);
  // Days and months: kept apart by Postgres, not used here.
  AppendBigEndian(std::int64_t{0}, bytes);
  AppendBytes(bytes);
}

std::string PostgresArray::Encode() const {
  const bool empty = nulls_ == size_;
  std::string out;
  out.reserve(20 + elements_.size());
  AppendBigEndian(std::int32_t{empty ? 0 : 1}, out);  // dimensions
  AppendBigEndian(std::int32_t{nulls_ > 0 && !empty}, out);
  AppendBigEndian(static_cast<std::uint32_t>(type_), out);
  if (empty) return out;
  AppendBigEndian(size_, out);
  AppendBigEndian(std::int32_t{1}, out);  // the first index
  out.append(elements_);
  return out;
}

void PostgresParameters::Add(const Uuid& value) { values_.emplace_back(AsBytes(value)); }

void PostgresParameters::Add(absl::Time value) {
  AppendBigEndian(ToPostgresMicros(value), values_.emplace_back());
}

void PostgresParameters::AddInt2(std::int16_t value) {
  AppendBigEndian(value, values_.emplace_back());
}

void PostgresParameters::AddInt8(std::int64_t value) {
  std::string bytes;
  AppendBigEndian(value, bytes);
  values_.push_back(std::move(bytes));
}

void PostgresParameters::AddInterval(absl::Duration value) {
  std::string bytes;
  AppendBigEndian(absl::ToInt64Microseconds(value), bytes);
  AppendBigEndian(std::int64_t{0}, bytes);
  values_.push_back(std::move(bytes));
}

void PostgresParameters::AddNull() {
  nulls_.push_back(values_.size());
  values_.emplace_back();
}

std::vector<std::optional<std::string_view>> PostgresParameters::Nullable() const {
  std::vector<std::optional<std::string_view>> nullable(values_.begin(), values_.end());
  for (const std::size_t place : nulls_) nullable[place].reset();
  return nullable;
}

void PostgresParameters::Add(std::int32_t value) { AppendBigEndian(value, values_.emplace_back()); }

}  // namespace idempotency::internal
