#include "server/store/postgres/records/unreadable_rows.h"

#include <cstddef>
#include <cstdint>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/limits.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/uuid_number.h"

namespace idempotency::internal {
namespace {

// The characters of a scope as numbers from 1 on, in the order of its bytes: Unicode without the
// surrogates.
constexpr std::uint32_t kFirstSurrogate = 0xD800;
constexpr std::uint32_t kSurrogates = 0x800;
constexpr std::uint32_t kLastAscii = 0x7F;
constexpr std::uint32_t kLastCharacter = 0x10FFFF - kSurrogates;

void AppendCharacter(std::uint32_t number, std::string& text) {
  const std::uint32_t point = number < kFirstSurrogate ? number : number + kSurrogates;
  const auto add = [&text](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto add_rest = [&](int shift) { add(0x80 | ((point >> shift) & 0x3F)); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xC0 | (point >> 6));
  } else {
    if (point < 0x10000) {
      add(0xE0 | (point >> 12));
    } else {
      add(0xF0 | (point >> 18));
      add_rest(12);
    }
    add_rest(6);
  }
  add_rest(0);
}

// Behind every scope.
const std::string& LastScope() {
  static const std::string* const kLast = [] {
    auto* const last = new std::string;  // never destroyed
    while (last->size() <= limits::kMaxScopeBytes) AppendCharacter(kLastCharacter, *last);
    return last;
  }();
  return *kLast;
}

Uuid LastId() {
  Uuid::Bytes bytes;
  bytes.fill(0xFF);
  return Uuid(bytes);
}

// The first number in (low, high] up to which `probe` meets the row that cannot be read; it is met
// up to `high`. nullopt if a probe finds a row that can be read.
absl::StatusOr<std::optional<absl::uint128>> Halve(
    absl::uint128 low, absl::uint128 high,
    absl::FunctionRef<absl::StatusOr<bool>(absl::uint128)> probe) {
  while (high - low > 1) {
    const absl::uint128 middle = low + (high - low) / 2;
    const absl::StatusOr<bool> readable = probe(middle);
    if (absl::IsDataLoss(readable.status())) {
      high = middle;
    } else if (!readable.ok()) {
      return readable.status();
    } else if (*readable) {
      return std::optional<absl::uint128>();
    } else {
      low = middle;
    }
  }
  return std::optional<absl::uint128>(high);
}

}  // namespace

absl::StatusOr<std::optional<Uuid>> FindUnreadable(PostgresConnection& connection,
                                                   const Uuid& after, const Uuid& last,
                                                   ProbeRows probe, const absl::Status& failure) {
  const PostgresConnection::Search search(connection);
  const absl::uint128 low = NumberOf(after);
  const auto found =
      Halve(low, NumberOf(last), [&](absl::uint128 until) { return probe(UuidOf(until)); });
  if (!found.ok()) return found.status();
  if (!*found) return std::optional<Uuid>();
  if (**found - low <= 1) return failure;
  return std::optional<Uuid>(UuidOf(**found));
}

RecordPlace RecordPlaces::LastAfter(const RecordPlace& after) const {
  return {walk_ == ListWalk::kNamespace ? LastScope() : after.scope, LastId()};
}

absl::StatusOr<std::vector<RecordPlace>> RecordPlaces::ReadUntil(const RecordPlace& after,
                                                                 const RecordPlace& until,
                                                                 int limit) {
  const bool by_scope = walk_ == ListWalk::kNamespace || walk_ == ListWalk::kScope;
  PostgresParameters parameters;
  parameters.AddBytes(first_part_);
  for (const RecordPlace* const place : {&after, &until}) {
    if (by_scope) parameters.AddBytes(place->scope);
    parameters.Add(place->id);
  }
  parameters.Add(limit);
  const PostgresStatement& by_id =
      walk_ == ListWalk::kUnknown ? statements_.unknown : statements_.children;
  const auto rows = connection_.ExecuteOne(by_scope ? statements_.in_namespace : by_id, parameters);
  if (!rows.ok()) return rows.status();
  // Columns: scope, id.
  std::vector<RecordPlace> places;
  for (int row = 0; row < rows->rows(); ++row) {
    places.push_back({rows->Text(row, 0), rows->GetUuid(row, 1)});
  }
  return places;
}

absl::StatusOr<std::vector<RecordPlace>> RecordPlaces::Read(const RecordPlace& after, int limit) {
  return ReadUntil(after, LastAfter(after), limit);
}

absl::StatusOr<bool> RecordPlaces::Probe(const RecordPlace& after, const RecordPlace& until) {
  const auto places = ReadUntil(after, until, /*limit=*/1);
  if (!places.ok()) return places.status();
  return !places->empty();
}

// Character by character: of all scopes that begin with those found so far, and not with an earlier
// next one.
absl::StatusOr<std::optional<std::string>> RecordPlaces::FindScope(const RecordPlace& after,
                                                                   const absl::Status& failure) {
  std::string scope;
  while (scope.size() <= limits::kMaxScopeBytes) {
    const absl::StatusOr<bool> readable = Probe(after, {scope, LastId()});
    if (absl::IsDataLoss(readable.status())) return std::optional<std::string>(scope);
    if (!readable.ok()) return readable.status();
    if (*readable) return std::optional<std::string>();
    const auto up_to = [&](absl::uint128 character) {
      std::string last = scope;
      AppendCharacter(static_cast<std::uint32_t>(character), last);
      return Probe(after, {absl::StrCat(last, LastScope()), LastId()});
    };
    const absl::StatusOr<bool> ascii = up_to(kLastAscii);
    if (ascii.ok() && *ascii) return std::optional<std::string>();
    if (!ascii.ok() && !absl::IsDataLoss(ascii.status())) return ascii.status();
    const auto next =
        ascii.ok() ? Halve(kLastAscii, kLastCharacter, up_to) : Halve(0, kLastAscii, up_to);
    if (!next.ok()) return next.status();
    if (!*next) return std::optional<std::string>();
    AppendCharacter(static_cast<std::uint32_t>(**next), scope);
  }
  return failure;
}

absl::StatusOr<std::optional<RecordPlace>> RecordPlaces::FindUnreadable(const RecordPlace& after) {
  const PostgresConnection::Search search(connection_);
  const absl::StatusOr<std::vector<RecordPlace>> next = Read(after, /*limit=*/1);
  if (next.ok()) {
    return next->empty() ? std::optional<RecordPlace>() : std::optional<RecordPlace>(next->front());
  }
  if (!absl::IsDataLoss(next.status())) return next.status();
  RecordPlace from = after;
  if (walk_ == ListWalk::kNamespace) {
    const absl::StatusOr<bool> readable = Probe(after, {after.scope, LastId()});
    if (!readable.ok() && !absl::IsDataLoss(readable.status())) return readable.status();
    if (readable.ok()) {
      if (*readable) return std::optional<RecordPlace>();
      const auto scope = FindScope(after, next.status());
      if (!scope.ok()) return scope.status();
      if (!*scope) return std::optional<RecordPlace>();
      from = {**scope, Uuid()};
    }
  }
  const auto id = internal::FindUnreadable(
      connection_, from.id, LastId(),
      [&](const Uuid& until) {
        return Probe(after, {from.scope, until});
      },
      next.status());
  if (!id.ok()) return id.status();
  if (!*id) return std::optional<RecordPlace>();
  return std::optional<RecordPlace>(RecordPlace{from.scope, **id});
}

}  // namespace idempotency::internal
