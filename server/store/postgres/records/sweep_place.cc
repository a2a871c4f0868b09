#include "server/store/postgres/records/sweep_place.h"

#include <algorithm>
#include <cstdint>

#include "absl/numeric/int128.h"

#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/uuid_number.h"
#include "server/store/postgres/statements/sweep_limits.h"

namespace idempotency::internal {

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

Uuid PlaceByTime(absl::Time time) {
  Uuid::Bytes bytes{};
  const Uuid::Bytes ordered = Uuid::TimeOrdered(time).bytes();
  std::copy_n(ordered.begin(), 6, bytes.begin());
  bytes[0] &= 0x7F;
  return Uuid(bytes);
}

std::vector<SweepRange> SweepTurns(absl::Time now) {
  const absl::Time recent = now - sweep_limits::kRecent;
  return {{PlaceByTime(recent), HashedStart()},
          {PlaceByAge(recent, Uuid()), std::nullopt},
          {HashedStart(), std::nullopt}};
}

void LeaveOpen(absl::Time now, SweepProgress& progress) {
  if (!progress.next) return;
  const absl::Time settled = now - sweep_limits::kSettled;
  const bool is_hashed = IsHashed(*progress.next);
  if (*progress.next < (is_hashed ? PlaceByAge(settled, Uuid()) : PlaceByTime(settled))) return;
  progress.quiet = absl::ZeroDuration();
}

SweepOp Narrowed(const SweepOp& op) {
  if (op.narrow == 0) return op;
  SweepOp narrowed = op;
  narrowed.limit = std::max(1, op.narrow < 31 ? op.limit >> op.narrow : 1);
  const Uuid after = op.after.value_or(RecordId());
  const Uuid end = IsHashed(after) ? HashedEnd() : HashedStart();
  const absl::uint128 low = NumberOf(after);
  const absl::uint128 high = NumberOf(std::min(op.until.value_or(end), end));
  narrowed.until = UuidOf(low + std::max<absl::uint128>(1, (high - low) >> op.narrow));
  return narrowed;
}

}  // namespace idempotency::internal
