#include "server/store/postgres_result.h"

#include <algorithm>

#include "server/store/postgres_parameters.h"

namespace idempotency {
namespace {

// Takes `size` bytes off the front; empty if there are not as many.
std::string_view TakeBytes(std::size_t size, std::string_view& rest) {
  if (rest.size() < size) {
    rest = {};
    return {};
  }
  const std::string_view taken = rest.substr(0, size);
  rest.remove_prefix(size);
  return taken;
}

// A signed big-endian number of up to 8 bytes.
std::int64_t ReadBigEndian(std::string_view bytes) {
  if (bytes.empty() || bytes.size() > 8) return 0;
  std::uint64_t value = (bytes.front() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
  for (const char byte : bytes) value = (value << 8) | static_cast<std::uint8_t>(byte);
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::string_view PostgresResult::Bytes(int row, int column) const {
  return {PQgetvalue(result_.get(), row, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

Uuid PostgresResult::GetUuid(int row, int column) const {
  const std::string_view bytes = Bytes(row, column);
  Uuid::Bytes uuid{};
  if (bytes.size() == uuid.size()) std::copy(bytes.begin(), bytes.end(), uuid.begin());
  return Uuid(uuid);
}

bool PostgresResult::Bool(int row, int column) const { return Integer(row, column) != 0; }

std::int64_t PostgresResult::Integer(int row, int column) const {
  return ReadBigEndian(Bytes(row, column));
}

absl::Time PostgresResult::Time(int row, int column) const {
  return FromPostgresMicros(Integer(row, column));
}

std::vector<std::string> PostgresResult::TextArray(int row, int column) const {
  std::string_view rest = Bytes(row, column);
  std::vector<std::string> texts;
  // Dimensions, has-null, element type, size, first index; then the elements.
  if (ReadBigEndian(TakeBytes(4, rest)) != 1) return texts;
  TakeBytes(8, rest);
  const std::int64_t size = ReadBigEndian(TakeBytes(4, rest));
  TakeBytes(4, rest);
  for (std::int64_t i = 0; i < size && !rest.empty(); ++i) {
    const std::int64_t length = ReadBigEndian(TakeBytes(4, rest));
    texts.emplace_back(
        TakeBytes(static_cast<std::size_t>(std::max<std::int64_t>(length, 0)), rest));
  }
  return texts;
}

}  // namespace idempotency
