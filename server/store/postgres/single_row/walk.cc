#include "server/store/postgres/single_row/walk.h"

#include <cstddef>
#include <utility>

#include "server/store/audit_hmac.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {

absl::StatusOr<SingleRowWalk::Visit> SingleRowWalk::Places(ListWalk walk,
                                                           const std::string& first_part,
                                                           const RecordPlace& after, int limit,
                                                           Look look) {
  RecordPlaces places(records_.connection(), records_.statements().places, records_.unreadable(),
                      walk, first_part, look);
  return ReadOrStepOver(
      places, after, limit,
      [&](int at_most, const std::optional<RecordPlace>& until) -> absl::StatusOr<Visit> {
        absl::StatusOr<std::vector<RecordPlace>> read = places.Read(after, until, at_most);
        if (!read.ok()) return read.status();
        Visit visit{*std::move(read), until};
        if (visit.places.size() == static_cast<std::size_t>(at_most)) {
          visit.next = visit.places.back();
        }
        return visit;
      },
      [](const RecordPlace& unreadable) -> absl::StatusOr<Visit> {
        return Visit{{unreadable}, unreadable};
      });
}

absl::StatusOr<bool> SingleRowWalk::InTransaction(absl::FunctionRef<absl::StatusOr<bool>()> write) {
  PostgresConnection& connection = records_.connection();
  if (absl::Status begun = connection.Begin(); !begun.ok()) return begun;
  absl::StatusOr<bool> written = write();
  if (!written.ok() || !*written) {
    connection.Rollback().IgnoreError();
    return written;
  }
  if (absl::Status committed = connection.Commit(); !committed.ok()) return committed;
  return true;
}

absl::StatusOr<bool> SingleRowWalk::UnlessLocked(absl::FunctionRef<absl::StatusOr<bool>()> change) {
  if (lock_waits_ == kMaxPostgresLockWaits) return false;
  absl::StatusOr<bool> changed = change();
  // A row that the server cannot write is left, as one that is locked.
  if (IsUnreadable(changed.status())) return false;
  if (!IsLeftAlone(changed.status())) return changed;
  ++lock_waits_;
  return false;
}

absl::Status SingleRowWalk::NoteAudit(const AdminNote& note, AuditAction action, bool forced,
                                      const std::string& audit_key, const Record& record,
                                      std::int64_t records, absl::Time now) {
  PostgresParameters parameters;
  parameters.Add(now);
  parameters.AddBytes(note.actor);
  parameters.AddBytes(note.reason);
  parameters.AddInt2(static_cast<std::int16_t>(action));
  parameters.AddBool(forced);
  parameters.AddBytes(record.key.name_space);
  parameters.Add(record.id);
  parameters.AddBytes(AsBytes(AuditHmac(audit_key, record.key)));
  parameters.AddInt2(ToProto(record.state));
  parameters.Add(static_cast<std::int32_t>(record.attempt));
  parameters.Add(static_cast<std::int32_t>(records));
  return records_.connection().ExecuteOne(records_.statements().note_audit, parameters).status();
}

std::vector<RecordId> RecordIdsOf(const std::vector<RecordPlace>& places) {
  std::vector<RecordId> ids;
  for (const RecordPlace& place : places) ids.push_back(place.id);
  return ids;
}

}  // namespace idempotency::internal
