#include "server/store/postgres/records/sweep_place.h"

#include <algorithm>
#include <cstdint>

#include "absl/numeric/int128.h"

#include "server/store/postgres/connection/parameters.h"

namespace idempotency::internal {
namespace {

absl::uint128 NumberOf(const Uuid& place) {
  absl::uint128 number = 0;
  for (const std::uint8_t byte : place.bytes()) number = (number << 8) | byte;
  return number;
}

}  // namespace

Uuid HashedStart() {
  Uuid::Bytes bytes{};
  bytes[0] = 0x80;
  return Uuid(bytes);
}

Uuid HashedEnd() {
  Uuid::Bytes place;
  place.fill(0xFF);
  // Half of what 63 bits count: still a time that Postgres can represent.
  place[0] = 0x80;
  place[1] = 0xFF;
  return Uuid(place);
}

bool IsHashed(const Uuid& id) { return (id.bytes()[0] & 0x80) != 0; }

Uuid PlaceByAge(absl::Time created_at, const Uuid& id) {
  const auto micros = static_cast<std::uint64_t>(ToPostgresMicros(created_at));
  Uuid::Bytes bytes{};
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(micros >> (56 - 8 * i));
  bytes[0] |= 0x80;
  std::copy_n(id.bytes().begin(), 8, bytes.begin() + 8);
  return Uuid(bytes);
}

std::pair<absl::Time, Uuid> AgeOf(const Uuid& place) {
  std::uint64_t micros = place.bytes()[0] & 0x7F;
  for (int i = 1; i < 8; ++i) micros = (micros << 8) | place.bytes()[i];
  Uuid::Bytes last;
  last.fill(0xFF);
  std::copy_n(place.bytes().begin() + 8, 8, last.begin());
  return {FromPostgresMicros(static_cast<std::int64_t>(micros)), Uuid(last)};
}

std::optional<Uuid> PlaceBetween(const Uuid& before, const Uuid& behind) {
  const absl::uint128 low = NumberOf(before);
  const absl::uint128 half = (NumberOf(behind) - low) / 2;
  if (half == 0) return std::nullopt;
  absl::uint128 number = low + half;
  Uuid::Bytes bytes{};
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte, number >>= 8) {
    *byte = static_cast<std::uint8_t>(absl::Uint128Low64(number) & 0xFF);
  }
  return Uuid(bytes);
}

}  // namespace idempotency::internal
