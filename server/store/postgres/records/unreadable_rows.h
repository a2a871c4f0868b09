#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_UNREADABLE_ROWS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_UNREADABLE_ROWS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/admin_decision.h"
#include "server/store/admin_operations.h"
#include "server/store/namespace_usage.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/unreadable_places.h"
#include "server/store/postgres/statements/place_statements.h"

namespace idempotency::internal {

// A row that the server cannot read (IsUnreadable), as on a damaged page, fails the statement of
// all. So that it stops no walk, a step reads fewer rows, which end before it; where it is the
// first one, its place is found without reading it, and the walk continues behind it. A walk over
// several tables (partitions, the nodes of a distributed server) meets the first row of each: the
// rows before that one are read with a statement that ends there.

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename Value>
const absl::Status& StatusOf(const absl::StatusOr<Value>& answer) {
  return answer.status();
}

// `read(limit)`, a step that reads the next rows, with the limit halved until the server can read
// them. IsUnreadable(): not even the first one.
template <typename Read>
auto ReadFewer(PostgresConnection& connection, int limit, const Read& read)
    -> decltype(read(limit)) {
  auto answer = read(limit);
  const PostgresConnection::Search search(connection);
  while (IsUnreadable(StatusOf(answer)) && limit > 1) answer = read(limit /= 2);
  return answer;
}

// Reads the first rows behind the place of a walk, up to `until`: whether the search ends with
// them. IsUnreadable() if the first one of a table cannot be read.
using ProbeRows = absl::FunctionRef<absl::StatusOr<bool>(const Uuid& until)>;

// The id, or place, of the first row behind `after`, which cannot be read and is not behind `last`:
// halves that range, with a probe for each of the 128 bits at most. nullopt if a probe ended the
// search. `failure` if the server cannot read even a range without rows, as on a damaged page of
// the index, or without its storage.
absl::StatusOr<std::optional<Uuid>> FindUnreadable(PostgresConnection& connection,
                                                   const Uuid& after, const Uuid& last,
                                                   ProbeRows probe, const absl::Status& failure);

// The place just before `place`.
RecordPlace PlaceBefore(const RecordPlace& place);
// Behind every id, and behind every scope.
RecordId LastId();
const std::string& LastScope();
// The first scope behind `scope`.
std::string ScopeBehind(std::string scope);

// How a walk passes a row that was found unreadable before.
enum class Look {
  kSeldom,  // for repeated walks: without reading it, but for a look now and then
  kAlways,  // an administrator's: by reading it, in case it was mended since
};

// The places of the records of a walk, in its order. Thread-compatible.
class RecordPlaces {
 public:
  // `first_part` is the namespace, or the parent's key. The others outlive it.
  RecordPlaces(PostgresConnection& connection, const PlaceStatements& statements,
               UnreadablePlaces& unreadable, ListWalk walk, std::string_view first_part, Look look);

  PostgresConnection& connection() { return connection_; }

  // Those behind `after`, whose scope is that of a walk through one, up to `until`; nullopt: to the
  // end of the walk.
  absl::StatusOr<std::vector<RecordPlace>> Read(const RecordPlace& after,
                                                const std::optional<RecordPlace>& until, int limit);
  // The place of the first record behind `after`, part or all of whose row cannot be read. nullopt
  // if there is none, because another session changed rows meanwhile. To find a row of which
  // nothing can be read takes one statement for each bit of its id. If its scope differs from that
  // of `after`, it takes nine more for each character of the scope, which limits::kMaxScopeBytes
  // bounds, or 23 if the character is not ASCII.
  absl::StatusOr<std::optional<RecordPlace>> FindUnreadable(const RecordPlace& after);

  // The first place behind `after` that an earlier walk found unreadable.
  std::optional<RecordPlace> KnownAfter(const RecordPlace& after) const;
  // Whether the walk reads the row there before it passes it.
  bool LooksAt(const RecordPlace& place) const;
  // What the look has shown.
  void Note(const RecordPlace& place, bool is_unreadable);

 private:
  RecordPlace LastAfter(const RecordPlace& after) const;
  bool IsByScope() const { return walk_ == ListWalk::kNamespace || walk_ == ListWalk::kScope; }
  // `place` as far as the order of the walk has it.
  RecordPlace InOrder(const RecordPlace& place) const;
  // Up to `last`, in the scope of `after`.
  absl::StatusOr<std::vector<RecordPlace>> ReadInScope(const RecordPlace& after,
                                                       const RecordId& last, int limit);
  // Of all scopes before `end`.
  absl::StatusOr<std::vector<RecordPlace>> ReadInScopes(const RecordPlace& after,
                                                        std::string_view end, int limit);
  absl::StatusOr<std::vector<RecordPlace>> Execute(const PostgresStatement& statement,
                                                   PostgresParameters range, int limit);
  absl::Status Probe(const RecordPlace& after, const RecordPlace& until);
  // The scope of the first unreadable row behind `after`, which is another one.
  absl::StatusOr<std::string> FindScope(const RecordPlace& after, const absl::Status& failure);

  PostgresConnection& connection_;
  const PlaceStatements& statements_;
  UnreadablePlaces& unreadable_;
  const ListWalk walk_;
  const WalkRange range_;
  const Look look_;
};

// One step of a walk that found its next unreadable row at `unreadable`: reads the rows before it,
// or passes it. The row may be gone by now.
template <typename Read, typename StepOver>
auto ReadUpTo(RecordPlaces& places, const RecordPlace& after, const RecordPlace& unreadable,
              int limit, const Read& read, const StepOver& step_over)
    -> decltype(read(limit, unreadable)) {
  const RecordPlace before = PlaceBefore(unreadable);
  const auto between = ReadFewer(places.connection(), limit,
                                 [&](int at_most) { return places.Read(after, before, at_most); });
  if (!between.ok()) return between.status();
  if (!between->empty()) {
    return ReadFewer(places.connection(), static_cast<int>(between->size()),
                     [&](int at_most) { return read(at_most, before); });
  }
  if (!places.LooksAt(unreadable)) return step_over(unreadable);
  auto answer = read(1, unreadable);
  const bool is_unreadable = IsUnreadable(answer.status());
  if (is_unreadable || answer.ok()) places.Note(unreadable, is_unreadable);
  if (is_unreadable) return step_over(unreadable);
  return answer;
}

// The same for the first row behind `after`, which is searched for.
template <typename Read, typename StepOver>
auto FindAndStepOver(RecordPlaces& places, const RecordPlace& after, int limit, const Read& read,
                     const StepOver& step_over) -> decltype(read(limit, after)) {
  const PostgresConnection::Search search(places.connection());
  const absl::StatusOr<std::optional<RecordPlace>> place = places.FindUnreadable(after);
  if (!place.ok()) return place.status();
  if (!*place) return read(1, std::nullopt);
  return ReadUpTo(places, after, **place, limit, read, step_over);
}

// The answer to one step of a walk through `places`: that of `read(limit, until)`, or of fewer
// rows; or, if the first row behind `after` cannot be read, `step_over(place)`, which is that
// row's.
//
// `read` reads at most `limit` rows behind `after`. `until` is the last place that it may read, or
// nullopt for the end of the walk; where it ends there, the walk continues behind that place. Over
// one table, in which those are the next `limit` rows, it may read on. Failures are those of the
// statement.
template <typename Read, typename StepOver>
auto ReadOrStepOver(RecordPlaces places, const RecordPlace& after, int limit, const Read& read,
                    const StepOver& step_over) -> decltype(read(limit, after)) {
  using Answer = decltype(read(limit, after));
  const auto take_step = [&]() -> Answer {
    if (const std::optional<RecordPlace> known = places.KnownAfter(after)) {
      Answer answer = ReadUpTo(places, after, *known, limit, read, step_over);
      if (!IsUnreadable(answer.status())) return answer;
    }
    Answer answer = ReadFewer(places.connection(), limit,
                              [&](int at_most) { return read(at_most, std::nullopt); });
    if (!IsUnreadable(answer.status())) return answer;
    return FindAndStepOver(places, after, limit, read, step_over);
  };
  Answer answer = take_step();
  if (!answer.ok()) return ToCallerStatus(answer.status());
  return answer;
}

// The step of a measurement that steps over a row: it counts as live, so that no quota grows by it.
inline absl::StatusOr<UsageStep> CountUnreadable(const RecordPlace& place) {
  return UsageStep{/*usage=*/{/*records=*/1, /*reply_bytes=*/0}, /*visited=*/1, place};
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_UNREADABLE_ROWS_H_
