#ifndef IDEMPOTENCY_SERVER_STORE_SQLITE_RECORDS_H_
#define IDEMPOTENCY_SERVER_STORE_SQLITE_RECORDS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/store/admin_decision.h"
#include "server/store/admin_operations.h"
#include "server/store/decision.h"
#include "server/store/namespace_usage.h"
#include "server/store/record_operations.h"
#include "server/store/sqlite/connection.h"
#include "server/store/sqlite/statement.h"

namespace idempotency::internal {

// The records of one connection: its prepared statements, and rows to and from
// C++, in records/. Makes no decisions. Thread-compatible; must not outlive its connection.
//
// Every method can return STORE_UNAVAILABLE. A write names the RowVersion that it expects: one that
// hits no row is STORE_UNAVAILABLE too, since under the write lock it can only
// be a fault.
class SqliteRecords {
 public:
  static absl::StatusOr<SqliteRecords> Prepare(SqliteConnection& connection);

  enum class Detail {
    kWhole,
    // Without the reply's bytes (its digest is there) and the checkpoint.
    kSlim,
  };
  // The row of `id`, forgotten or not; nullopt if there is none. DATA_LOSS /
  // RECORD_DAMAGED for a row that this program cannot have written.
  absl::StatusOr<std::optional<StoredRecord>> Find(const RecordId& id, Detail detail);

  absl::Status Insert(const ReserveOp& op, const Grant& grant, const Uuid& token);
  // Removes the row and its checkpoint, then inserts.
  absl::Status StartAfresh(const ReserveOp& op, const Grant& grant, const Uuid& token,
                           const RowVersion& expected);
  absl::Status GrantNext(const ReserveOp& op, const Grant& grant, const Uuid& token,
                         const RowVersion& expected);
  absl::Status RenewLease(const RecordId& id, absl::Time lease_expires_at,
                          const RowVersion& expected);
  absl::Status MarkUnknown(const RecordId& id, const RowVersion& expected);
  absl::Status Complete(const CompleteOp& op, absl::Time now);
  absl::Status Release(const ReleaseOp& op, RecordState becomes, absl::Time lease_expires_at);
  absl::Status Extend(const ExtendOp& op, absl::Time lease_expires_at);

  // The replies that one step of the sweep or of an administrator reads, or whose pages it frees,
  // in bytes, except for the last one: other calls wait for the connection meanwhile.
  static constexpr std::int64_t kMaxStepBytes = 16 * 1024 * 1024;

  // The fields of a row that the sweeper needs.
  struct SweepRow {
    RecordId id;
    RowVersion expected;
    SweepView view;
    std::int64_t reply_bytes = 0;
  };
  // Up to `limit` rows above `after` (nullopt: from the lowest) and up to
  // `until` (nullopt: to the highest), by id; fewer of rows whose replies have to be read. A
  // damaged row is left out; a read of that record reports it.
  struct SweepPage {
    std::vector<SweepRow> rows;
    // The last id read; nullopt if there was none left.
    std::optional<RecordId> last;
    int looked_at = 0;
    // There may be rows behind the last one.
    bool more = false;
  };
  absl::StatusOr<SweepPage> ReadSweepPage(const std::optional<RecordId>& after,
                                          const std::optional<RecordId>& until, int limit);
  // These four, and the other maintenance below, are DATA_LOSS / RECORD_DAMAGED where a page of
  // the record is damaged: its transaction writes no more, and is rolled back.
  absl::Status Remove(const RecordId& id, const RowVersion& expected);
  absl::Status MarkUnknownToMaintain(const RecordId& id, const RowVersion& expected);
  // Keeps the columns that identify the key, and the times.
  absl::Status LeaveTombstone(const RecordId& id, const RowVersion& expected);
  // Puts `rest` in the reply's place.
  absl::Status DropReply(const RecordId& id, const EncodedReply& rest, const RowVersion& expected);

  // A row of an administrator's walk; no record if it is damaged, or was removed meanwhile.
  struct WalkRow {
    RecordPlace place;
    std::optional<StoredRecord> stored;
    // Of Walk().
    bool damaged = false;
  };
  struct WalkPage {
    std::vector<WalkRow> rows;
    // There may be rows behind the last one.
    bool more = false;
  };
  // Up to `limit` rows behind `after`, and fewer once their replies reach kMaxStepBytes.
  // `first_part` is the namespace, or the parent's key for kChildren. For kScope `after` has the
  // scope, with the nil id for its first record.
  absl::StatusOr<WalkPage> Walk(ListWalk walk, std::string_view first_part,
                                const std::optional<RecordPlace>& after, int limit);
  // The same by scope and id, with what may be sealed. Fewer rows once their replies reach
  // limits::kMaxResealStepBytes; `next` is the last of them, nullopt if there are none behind it.
  struct ContentPage {
    std::vector<WalkRow> rows;
    std::optional<RecordPlace> next;
  };
  absl::StatusOr<ContentPage> ReadContents(std::string_view name_space,
                                           const std::optional<RecordPlace>& after, int limit);
  // Both for a row that was just read, under its token.
  absl::Status ReplaceReply(const RecordId& id, const Uuid& token, const EncodedReply& reply,
                            bool content_dropped);
  absl::Status ReplaceCheckpoint(const RecordId& id, std::string_view checkpoint);
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op, absl::Time now);
  // As DecideResolve() decided.
  absl::Status Settle(const ResolveOp& op, const ResolveDecision& decision, absl::Time now);
  // The tombstone of a record that is forgotten from now on.
  absl::Status LeaveTombstone(const RecordId& id, const RowVersion& expected,
                              const TombstoneTimes& times);

  // When the oldest currently RESERVED record was created.
  absl::StatusOr<std::optional<absl::Time>> OldestReserved(absl::Time now);
  absl::StatusOr<std::int64_t> CountUnknown();

 private:
  // As ReadSweepPage(), each row by a statement of its own: without those on a damaged page.
  absl::StatusOr<SweepPage> ReadSweepRows(const std::optional<RecordId>& after,
                                          const RecordId& last, int limit);

  SqliteRecords() = default;

  // A statement, and the SQL to prepare it with.
  struct Source {
    SqliteStatement& statement;
    std::string sql;
  };
  static absl::Status PrepareAll(SqliteConnection& connection,
                                 std::initializer_list<Source> sources);
  // The statements of one file of records/ each.
  absl::Status PrepareReserve(SqliteConnection& connection);
  absl::Status PrepareSettle(SqliteConnection& connection);
  absl::Status PrepareSweep(SqliteConnection& connection);
  absl::Status PrepareWalks(SqliteConnection& connection);
  absl::Status PrepareAdmin(SqliteConnection& connection);
  absl::Status PrepareGauges(SqliteConnection& connection);

  SqliteStatement& StatementOf(ListWalk walk);
  // Find(), by a statement that the caller resets.
  static absl::StatusOr<std::optional<StoredRecord>> StepTo(SqliteStatement& find,
                                                            const RecordId& id, Detail detail);
  // Where the rows of a walk are, from its index alone: a damaged page of the table must not end
  // it. Without the scope where the walk does not need it.
  absl::StatusOr<std::vector<RecordPlace>> Places(ListWalk walk, std::string_view first_part,
                                                  const std::optional<RecordPlace>& after,
                                                  int limit);
  // As Remove(), and STORE_UNAVAILABLE for a damaged page too: a failure of its whole transaction.
  absl::Status RemoveToStartAfresh(const RecordId& id, const RowVersion& expected);

  SqliteStatement find_whole_;
  SqliteStatement find_slim_;
  SqliteStatement insert_;
  SqliteStatement remove_;
  SqliteStatement grant_next_;
  SqliteStatement renew_lease_;
  SqliteStatement mark_unknown_;
  SqliteStatement complete_;
  SqliteStatement release_;
  SqliteStatement extend_;
  SqliteStatement store_checkpoint_;
  SqliteStatement sweep_page_;
  SqliteStatement sweep_ids_;
  SqliteStatement sweep_row_;
  SqliteStatement entomb_;
  SqliteStatement walk_namespace_;
  SqliteStatement walk_scope_;
  SqliteStatement walk_unknown_;
  SqliteStatement walk_children_;
  SqliteStatement replace_reply_;
  SqliteStatement replace_checkpoint_;
  SqliteStatement measure_record_;
  SqliteStatement settle_;
  SqliteStatement set_tombstone_;
  SqliteStatement remove_checkpoint_;
  SqliteStatement drop_reply_;
  SqliteStatement oldest_reserved_;
  SqliteStatement count_unknown_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SQLITE_RECORDS_H_
