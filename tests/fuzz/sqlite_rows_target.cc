// Rows of a SQLite file that differ from the store's. Each change is three bytes (row, column, kind
// of value) and the value.
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/reply.h"
#include "server/store/testing/operations.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/stored_rows.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

using Row = StoredRows::Row;

constexpr Row kAllRows[] = {Row::kPaid, Row::kForgotten, Row::kUnknown};
constexpr int kMaxChanges = 4;
constexpr int kMaxSweepSteps = 16;

// The changes to one row.
struct Changes {
  int count = 0;
  int column = 0;
  // It is a number now, or NULL, as this column may be.
  bool plausible = false;
};

void Change(StoredRows& rows, Input& input, std::vector<Changes>& changes) {
  const Row row = kAllRows[input.Byte() % StoredRows::kRows];
  const int column = input.Byte() % StoredRows::kColumns;
  Changes& change = changes[static_cast<int>(row)];
  ++change.count;
  change.column = column;
  switch (input.Byte() % 6) {
    case 0:
      rows.SetNull(row, column);
      change.plausible = true;
      break;
    case 1:
      rows.SetInteger(row, column, input.Integer());
      change.plausible = true;
      break;
    case 2:
      rows.SetReal(row, column, static_cast<double>(input.Integer()));
      // A column for numbers converts it into a whole number.
      change.plausible = true;
      break;
    case 3:
      rows.SetText(row, column, input.Block());
      // The same.
      change.plausible = true;
      break;
    case 4:
      rows.SetBlob(row, column, input.Block());
      break;
    default:
      rows.Flip(row, column, input.Block());
  }
}

// A row with other valid values shows no sign of damage: there is no checksum over a row.
bool Contradicts(Row row, const Changes& changes) {
  if (changes.count > 1) return true;
  const std::string_view column = StoredRows::NameOf(changes.column);
  switch (row) {
    case Row::kPaid:
      return false;  // when it expires its tombstone begins
    case Row::kForgotten:
      return changes.plausible && column == "tombstone_until";
    case Row::kUnknown:
      return changes.plausible &&
             (column == "on_lease_expiry" || column == "state" || column == "expires_at");
  }
  return true;
}

template <typename Answer>
void RequireOfRecord(const Answer& answer) {
  absl::Status status;
  if constexpr (std::is_same_v<Answer, absl::Status>) {
    status = answer;
  } else {
    status = answer.status();
  }
  Require(!absl::IsUnavailable(status), "a damaged row is no outage");
  Require(status.ok() || ReasonOf(status).has_value(), "an error is explained");
}

void RequireUntouched(Row row, const absl::StatusOr<Verdict>& answer) {
  switch (row) {
    case Row::kPaid:
      return Require(As<Replay>(answer) != nullptr, "a good row is replayed");
    case Row::kForgotten:
      return Require(As<Expired>(answer) != nullptr, "a good tombstone holds");
    case Row::kUnknown:
      return Require(As<OutcomeUnknown>(answer) != nullptr, "a good row waits for recovery");
  }
}

void RequireRightReply(const Replay& replay) {
  const absl::StatusOr<v1::Reply> reply = DecodeReply(replay.reply);
  if (!reply.ok()) return;
  const bool whole = reply->body() == "paid" || reply->body() == "gone";
  Require(whole || (!reply->has_body() && !IsComplete(*reply)), "no other reply is given");
}

void TryToRun(StoredRows& rows, const std::vector<Changes>& changes) {
  std::vector<ReserveOp> ops;
  for (const Row row : kAllRows) ops.push_back(ReserveNamed(StoredRows::NameOf(row)));
  ops.push_back(ReserveNamed("new"));
  const std::vector<absl::StatusOr<Verdict>> answers = rows.store().Reserve(ops);
  Require(As<Reserved>(answers.back()) != nullptr, "a damaged row harms no other key");
  for (const Row row : kAllRows) {
    const int i = static_cast<int>(row);
    RequireOfRecord(answers[i]);
    if (changes[i].count == 0) {
      RequireUntouched(row, answers[i]);
    } else if (!Contradicts(row, changes[i])) {
      Require(As<Reserved>(answers[i]) == nullptr, "a damaged row is never run again");
    }
    if (const auto* replay = As<Replay>(answers[i])) RequireRightReply(*replay);
  }
}

void DoTheRest(StoredRows& rows) {
  Store& store = rows.store();
  Require(store.Inspect().ok(), "the gauges can be read");
  for (const Row row : kAllRows) {
    const std::string_view name = StoredRows::NameOf(row);
    const GetOp get = GetNamed(name);
    RequireOfRecord(store.Get({&get, 1})[0]);
    const ExtendOp extend = ExtendNamed(name, rows.TokenOf(row));
    RequireOfRecord(store.Extend({&extend, 1})[0]);
    const CompleteOp complete = CompleteNamed(name, rows.TokenOf(row), "other");
    RequireOfRecord(store.Complete({&complete, 1})[0]);
    const ReleaseOp release = ReleaseNamed(name, rows.TokenOf(row));
    RequireOfRecord(store.Release({&release, 1})[0]);
  }
}

void Sweep(StoredRows& rows) {
  SweepOp op;
  op.limit = 1;
  for (int step = 0; step < kMaxSweepSteps; ++step) {
    const absl::StatusOr<SweepProgress> progress = rows.store().Sweep(op);
    Require(progress.ok(), "a damaged row does not stop the sweep");
    op.after = progress->next;
    if (!op.after) return;
  }
  Require(false, "a sweep comes to its end");
}

}  // namespace

void SqliteRows(std::string_view bytes) {
  static StoredRows rows;
  rows.Restore();
  Input input(bytes);
  std::vector<Changes> changes(StoredRows::kRows);
  const bool sweep_first = input.Byte() % 2 == 1;
  for (int i = 0; i < kMaxChanges && !input.empty(); ++i) Change(rows, input, changes);
  if (sweep_first) Sweep(rows);
  TryToRun(rows, changes);
  DoTheRest(rows);
  Sweep(rows);
}

}  // namespace idempotency::internal::fuzz
