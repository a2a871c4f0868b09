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
#include "server/store/postgres/statements/place_statements.h"

namespace idempotency::internal {

// A row that the server cannot read, as on a damaged page, fails the statement of all (DATA_LOSS).
// So that it stops no walk, a step reads fewer rows, which end before it; where it is the first
// one, its place is found without reading it, and the walk continues behind it.

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename Value>
const absl::Status& StatusOf(const absl::StatusOr<Value>& answer) {
  return answer.status();
}

// `read(limit)`, a step that reads the next rows, with the limit halved until the server can read
// them. DATA_LOSS: not even the first one.
template <typename Read>
auto ReadFewer(PostgresConnection& connection, int limit, const Read& read)
    -> decltype(read(limit)) {
  auto answer = read(limit);
  const PostgresConnection::Search search(connection);
  while (absl::IsDataLoss(StatusOf(answer)) && limit > 1) answer = read(limit /= 2);
  return answer;
}

// Whether there is a readable row behind the place of a walk, up to `until`. DATA_LOSS if the first
// row there cannot be read.
using ProbeRows = absl::FunctionRef<absl::StatusOr<bool>(const Uuid& until)>;

// The id, or place, of the first row behind `after`, which cannot be read and is not behind `last`:
// halves that range, with a probe for each of the 128 bits at most. nullopt if a probe finds a
// readable row: others change rows meanwhile. `failure` if the server can read no range at all, as
// on a damaged page of the index.
absl::StatusOr<std::optional<Uuid>> FindUnreadable(PostgresConnection& connection,
                                                   const Uuid& after, const Uuid& last,
                                                   ProbeRows probe, const absl::Status& failure);

// The places of the records of a walk, in its order. Thread-compatible.
class RecordPlaces {
 public:
  // `first_part` is the namespace, or the parent's key. The others outlive it.
  RecordPlaces(PostgresConnection& connection, const PlaceStatements& statements, ListWalk walk,
               std::string_view first_part)
      : connection_(connection), statements_(statements), walk_(walk), first_part_(first_part) {}

  PostgresConnection& connection() { return connection_; }

  // Those behind `after`, whose scope is that of a walk through one.
  absl::StatusOr<std::vector<RecordPlace>> Read(const RecordPlace& after, int limit);
  // The place of the first record behind `after`, part or all of whose row cannot be read. nullopt
  // if there is none, because another session changed rows meanwhile. To find a row of which
  // nothing can be read takes one statement for each bit of its id. If its scope differs from that
  // of `after`, it takes nine more for each character of the scope, which limits::kMaxScopeBytes
  // bounds, or 23 if the character is not ASCII.
  absl::StatusOr<std::optional<RecordPlace>> FindUnreadable(const RecordPlace& after);

 private:
  RecordPlace LastAfter(const RecordPlace& after) const;
  absl::StatusOr<std::vector<RecordPlace>> ReadUntil(const RecordPlace& after,
                                                     const RecordPlace& until, int limit);
  absl::StatusOr<bool> Probe(const RecordPlace& after, const RecordPlace& until);
  // The scope of the first row behind `after`, which is another one.
  absl::StatusOr<std::optional<std::string>> FindScope(const RecordPlace& after,
                                                       const absl::Status& failure);

  PostgresConnection& connection_;
  const PlaceStatements& statements_;
  const ListWalk walk_;
  const std::string first_part_;
};

// The answer to one step of a walk through `places`: that of `read(limit)`, or of fewer rows; or,
// if the first row behind `after` cannot be read, `step_over(place)`, which is that row's.
template <typename Read, typename StepOver>
auto ReadOrStepOver(RecordPlaces places, const RecordPlace& after, int limit, const Read& read,
                    const StepOver& step_over) -> decltype(read(limit)) {
  auto answer = ReadFewer(places.connection(), limit, read);
  if (!absl::IsDataLoss(answer.status())) return answer;
  const absl::StatusOr<std::optional<RecordPlace>> place = places.FindUnreadable(after);
  if (!place.ok()) return ToCallerStatus(place.status());
  return *place ? step_over(**place) : read(1);
}

// The step of a measurement that steps over a row: it counts as live, so that no quota grows by it.
inline absl::StatusOr<UsageStep> CountUnreadable(const RecordPlace& place) {
  return UsageStep{/*usage=*/{/*records=*/1, /*reply_bytes=*/0}, /*visited=*/1, place};
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_UNREADABLE_ROWS_H_
