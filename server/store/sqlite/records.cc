#include "server/store/sqlite/records.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/sqlite/records/row.h"

namespace idempotency::internal {
namespace {

constexpr char kFromRecords[] = " FROM records AS r WHERE id = ?1";

}  // namespace

absl::StatusOr<SqliteRecords> SqliteRecords::Prepare(SqliteConnection& connection) {
  SqliteRecords records;
  const std::string select = absl::StrCat("SELECT ", kSqliteRowColumns);
  absl::Status prepared = PrepareAll(
      connection,
      {{records.find_whole_, absl::StrCat(select, kSqliteReplyAndCheckpoint, kFromRecords)},
       {records.find_slim_, absl::StrCat(select, kSqliteHasReply, kFromRecords)}});
  for (const auto prepare : {&SqliteRecords::PrepareReserve, &SqliteRecords::PrepareSettle,
                             &SqliteRecords::PrepareSweep, &SqliteRecords::PrepareWalks,
                             &SqliteRecords::PrepareAdmin, &SqliteRecords::PrepareGauges}) {
    if (prepared.ok()) prepared = (records.*prepare)(connection);
  }
  if (!prepared.ok()) return prepared;
  return records;
}

absl::Status SqliteRecords::PrepareAll(SqliteConnection& connection,
                                       std::initializer_list<Source> sources) {
  for (const Source& source : sources) {
    absl::StatusOr<SqliteStatement> prepared = connection.Prepare(source.sql.c_str());
    if (!prepared.ok()) return prepared.status();
    source.statement = *std::move(prepared);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<StoredRecord>> SqliteRecords::Find(const RecordId& id, Detail detail) {
  SqliteStatement::Run run(detail == Detail::kWhole ? find_whole_ : find_slim_);
  return StepTo(*run, id, detail);
}

absl::StatusOr<std::optional<StoredRecord>> SqliteRecords::StepTo(SqliteStatement& find,
                                                                  const RecordId& id,
                                                                  Detail detail) {
  find.Bind(1, id);
  const absl::StatusOr<bool> row = find.Step();
  if (!row.ok()) return find.met_damage() ? DamagedSqliteRow() : row.status();
  if (!*row) return std::optional<StoredRecord>();
  return ReadSqliteRow(find, id, detail);
}

}  // namespace idempotency::internal
