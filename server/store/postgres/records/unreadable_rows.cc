#include "server/store/postgres/records/unreadable_rows.h"

#include <cstddef>
#include <cstdint>
#include <utility>

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

// The first number in (low, high] up to which `probe` meets a row that cannot be read; it is met up
// to `high`. nullopt if a probe ends the search.
absl::StatusOr<std::optional<absl::uint128>> Halve(
    absl::uint128 low, absl::uint128 high,
    absl::FunctionRef<absl::StatusOr<bool>(absl::uint128)> probe) {
  while (high - low > 1) {
    const absl::uint128 middle = low + (high - low) / 2;
    const absl::StatusOr<bool> ends = probe(middle);
    if (IsUnreadable(ends.status())) {
      high = middle;
    } else if (!ends.ok()) {
      return ends.status();
    } else if (*ends) {
      return std::optional<absl::uint128>();
    } else {
      low = middle;
    }
  }
  return std::optional<absl::uint128>(high);
}

// The answer of a probe that reads only: nothing in the range stops it, also if there are rows.
absl::StatusOr<bool> GoOn(const absl::Status& read) {
  if (!read.ok()) return read;
  return false;
}

WalkRange::Order OrderOf(ListWalk walk) {
  switch (walk) {
    case ListWalk::kNamespace:
    case ListWalk::kScope:
      return WalkRange::Order::kScopes;
    case ListWalk::kUnknown:
      return WalkRange::Order::kUnknown;
    case ListWalk::kChildren:
      break;
  }
  return WalkRange::Order::kChildren;
}

}  // namespace

absl::StatusOr<std::optional<Uuid>> FindUnreadable(PostgresConnection& connection,
                                                   const Uuid& after, const Uuid& last,
                                                   ProbeRows probe, const absl::Status& failure) {
  const PostgresConnection::Search search(connection);
  // Of no row, and by that of the index alone.
  const absl::StatusOr<bool> nothing = probe(after);
  if (IsUnreadable(nothing.status())) return failure;
  if (!nothing.ok()) return nothing.status();
  const auto found = Halve(NumberOf(after), NumberOf(last),
                           [&](absl::uint128 until) { return probe(UuidOf(until)); });
  if (!found.ok()) return found.status();
  return *found ? std::optional<Uuid>(UuidOf(**found)) : std::nullopt;
}

RecordPlace PlaceBefore(const RecordPlace& place) {
  const absl::uint128 number = NumberOf(place.id);
  return {place.scope, number == 0 ? place.id : UuidOf(number - 1)};
}

RecordId LastId() {
  Uuid::Bytes bytes;
  bytes.fill(0xFF);
  return Uuid(bytes);
}

const std::string& LastScope() {
  static const std::string* const kLast = [] {
    auto* const last = new std::string;  // never destroyed
    while (last->size() <= limits::kMaxScopeBytes) AppendCharacter(kLastCharacter, *last);
    return last;
  }();
  return *kLast;
}

// The server's texts have no character 0.
std::string ScopeBehind(std::string scope) {
  scope += '\1';
  return scope;
}

RecordPlaces::RecordPlaces(PostgresConnection& connection, const PlaceStatements& statements,
                           UnreadablePlaces& unreadable, ListWalk walk, std::string_view first_part,
                           Look look)
    : connection_(connection),
      statements_(statements),
      unreadable_(unreadable),
      walk_(walk),
      range_{OrderOf(walk), std::string(first_part)},
      look_(look) {}

RecordPlace RecordPlaces::LastAfter(const RecordPlace& after) const {
  return {walk_ == ListWalk::kNamespace ? LastScope() : after.scope, LastId()};
}

RecordPlace RecordPlaces::InOrder(const RecordPlace& place) const {
  return {IsByScope() ? place.scope : "", place.id};
}

std::optional<RecordPlace> RecordPlaces::KnownAfter(const RecordPlace& after) const {
  std::optional<RecordPlace> known = unreadable_.FirstAfter(range_, InOrder(after));
  if (known && walk_ == ListWalk::kScope && known->scope != after.scope) known.reset();
  return known;
}

bool RecordPlaces::LooksAt(const RecordPlace& place) const {
  return look_ == Look::kAlways || unreadable_.IsDue(range_, InOrder(place));
}

void RecordPlaces::Note(const RecordPlace& place, bool is_unreadable) {
  if (is_unreadable) {
    unreadable_.Add(range_, InOrder(place));
  } else {
    unreadable_.Remove(range_, InOrder(place));
  }
}

absl::StatusOr<std::vector<RecordPlace>> RecordPlaces::Read(const RecordPlace& after,
                                                            const std::optional<RecordPlace>& until,
                                                            int limit) {
  const RecordPlace last = until ? *until : LastAfter(after);
  if (!IsByScope()) {
    PostgresParameters range;
    range.AddBytes(range_.first_part);
    range.Add(after.id);
    range.Add(last.id);
    return Execute(walk_ == ListWalk::kUnknown ? statements_.unknown : statements_.children,
                   std::move(range), limit);
  }
  if (after.scope == last.scope) return ReadInScope(after, last.id, limit);
  if (last.id == LastId()) return ReadInScopes(after, ScopeBehind(last.scope), limit);
  absl::StatusOr<std::vector<RecordPlace>> places = ReadInScopes(after, last.scope, limit);
  if (!places.ok() || places->size() == static_cast<std::size_t>(limit)) return places;
  const auto in_last =
      ReadInScope({last.scope, RecordId()}, last.id, limit - static_cast<int>(places->size()));
  if (!in_last.ok()) return in_last.status();
  places->insert(places->end(), in_last->begin(), in_last->end());
  return places;
}

absl::StatusOr<std::vector<RecordPlace>> RecordPlaces::ReadInScope(const RecordPlace& after,
                                                                   const RecordId& last,
                                                                   int limit) {
  PostgresParameters range;
  range.AddBytes(range_.first_part);
  range.AddBytes(after.scope);
  range.Add(after.id);
  range.Add(last);
  return Execute(statements_.in_scope, std::move(range), limit);
}

absl::StatusOr<std::vector<RecordPlace>> RecordPlaces::ReadInScopes(const RecordPlace& after,
                                                                    std::string_view end,
                                                                    int limit) {
  PostgresParameters range;
  range.AddBytes(range_.first_part);
  range.AddBytes(after.scope);
  range.Add(after.id);
  range.AddBytes(end);
  return Execute(statements_.in_scopes, std::move(range), limit);
}

absl::StatusOr<std::vector<RecordPlace>> RecordPlaces::Execute(const PostgresStatement& statement,
                                                               PostgresParameters range,
                                                               int limit) {
  range.Add(limit);
  const auto rows = connection_.ExecuteOne(statement, range);
  if (!rows.ok()) return rows.status();
  // Columns: scope, id.
  std::vector<RecordPlace> places;
  for (int row = 0; row < rows->rows(); ++row) {
    places.push_back({rows->Text(row, 0), rows->GetUuid(row, 1)});
  }
  return places;
}

absl::Status RecordPlaces::Probe(const RecordPlace& after, const RecordPlace& until) {
  return Read(after, until, /*limit=*/1).status();
}

// Character by character: of all scopes that begin with those found so far, and not with an earlier
// next one.
absl::StatusOr<std::string> RecordPlaces::FindScope(const RecordPlace& after,
                                                    const absl::Status& failure) {
  std::string scope;
  while (scope.size() <= limits::kMaxScopeBytes) {
    const absl::Status readable = Probe(after, {scope, LastId()});
    if (IsUnreadable(readable)) return scope;
    if (!readable.ok()) return readable;
    const auto up_to = [&](absl::uint128 character) {
      std::string last = scope;
      AppendCharacter(static_cast<std::uint32_t>(character), last);
      return GoOn(Probe(after, {absl::StrCat(last, LastScope()), LastId()}));
    };
    const absl::Status ascii = up_to(kLastAscii).status();
    if (!ascii.ok() && !IsUnreadable(ascii)) return ascii;
    const auto next =
        ascii.ok() ? Halve(kLastAscii, kLastCharacter, up_to) : Halve(0, kLastAscii, up_to);
    if (!next.ok()) return next.status();
    AppendCharacter(static_cast<std::uint32_t>(next->value()), scope);
  }
  return failure;
}

absl::StatusOr<std::optional<RecordPlace>> RecordPlaces::FindUnreadable(const RecordPlace& after) {
  const PostgresConnection::Search search(connection_);
  const absl::StatusOr<std::vector<RecordPlace>> next = Read(after, std::nullopt, /*limit=*/1);
  if (next.ok()) {
    return next->empty() ? std::optional<RecordPlace>() : std::optional<RecordPlace>(next->front());
  }
  if (!IsUnreadable(next.status())) return next.status();
  RecordPlace from = after;
  if (walk_ == ListWalk::kNamespace) {
    const absl::Status readable = Probe(after, {after.scope, LastId()});
    if (!readable.ok() && !IsUnreadable(readable)) return readable;
    if (readable.ok()) {
      absl::StatusOr<std::string> scope = FindScope(after, next.status());
      if (!scope.ok()) return scope.status();
      from = {*std::move(scope), Uuid()};
    }
  }
  const auto id = internal::FindUnreadable(
      connection_, from.id, LastId(),
      [&](const Uuid& until) {
        return GoOn(Probe(from, {from.scope, until}));
      },
      next.status());
  if (!id.ok()) return id.status();
  return std::optional<RecordPlace>(RecordPlace{from.scope, id->value()});
}

}  // namespace idempotency::internal
