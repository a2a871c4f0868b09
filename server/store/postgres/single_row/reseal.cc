#include "server/store/postgres/single_row/reseal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/sha256.h"
#include "server/store/limits.h"
#include "server/store/postgres/records/audit_key.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/reply_digests.h"

namespace idempotency::internal {
namespace {

void AddDigests(const ReplyDigests& digests, PostgresParameters& parameters) {
  parameters.AddBytes(AsBytes(digests.reply));
  if (digests.status) {
    parameters.AddBytes(AsBytes(*digests.status));
  } else {
    parameters.AddNull();
  }
}

}  // namespace

absl::StatusOr<std::vector<StoredRecord>> SingleRowReseal::ReadContents(const ResealOp& op,
                                                                        ResealStep& step) {
  const auto visit = walk_.Places(ListWalk::kNamespace, op.name_space,
                                  op.after.value_or(RecordPlace()), op.limit, Look::kAlways);
  if (!visit.ok()) return visit.status();
  std::vector<StoredRecord> contents;
  std::vector<SingleRowRecords::Row> rows =
      records_.Read(RecordIdsOf(visit->places), {limits::kMaxResealStepBytes, /*confirmed=*/false});
  bool whole = true;
  for (std::size_t i = 0; i < rows.size() && whole; ++i) {
    SingleRowRecords::Row& row = rows[i];
    if (!row.ok() && !IsUnreadable(row.status())) return ToCallerStatus(row.status());
    // Its reply was left out: the next step begins here.
    whole = !row.ok() || !*row || !(*row)->reply_left_out;
    if (!whole) break;
    step.next = visit->places[i];
    if (row.ok() && !*row) continue;  // removed meanwhile
    step.examined += 1;
    if (row.ok()) {
      contents.push_back(std::move((*row)->stored));
    } else {
      step.damaged.push_back(visit->places[i].id);
    }
  }
  if (whole) step.next = visit->next;
  std::vector<StoredRecord*> all;
  for (StoredRecord& stored : contents) all.push_back(&stored);
  const std::vector<absl::Status> reads =
      records_.AddCheckpoints(all, SingleRowRecords::Life::kAny);
  std::vector<StoredRecord> whole_ones;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].ok()) {
      whole_ones.push_back(std::move(contents[i]));
    } else if (IsUnreadable(reads[i])) {
      step.damaged.push_back(contents[i].record.id);
    } else {
      return ToCallerStatus(reads[i]);
    }
  }
  return whole_ones;
}

absl::StatusOr<bool> SingleRowReseal::Replace(const ContentReplacement& replacement) {
  const auto& [before, after] = replacement;
  bool whole = true;
  if (after.reply) {
    PostgresParameters parameters;
    parameters.Add(before.id);
    parameters.Add(before.token);
    AddDigests(ReplyDigestsOf(before.completed_digest, *before.reply), parameters);
    parameters.AddBytes(after.reply->bytes);
    AddDigests(ReplyDigestsOf(before.completed_digest, *after.reply), parameters);
    const auto replaced =
        records_.connection().ExecuteOne(records_.statements().replace_reply, parameters);
    if (!replaced.ok()) return replaced.status();
    whole = replaced->rows() > 0;
  }
  if (after.checkpoint) {
    PostgresParameters parameters;
    parameters.Add(before.id);
    parameters.AddBytes(before.checkpoint);
    parameters.AddBytes(*after.checkpoint);
    const auto replaced =
        records_.connection().ExecuteOne(records_.statements().replace_checkpoint, parameters);
    if (!replaced.ok()) return replaced.status();
    whole = whole && replaced->rows() > 0;
  }
  return whole;
}

absl::StatusOr<ResealStep> SingleRowReseal::Step(const ResealOp& op) {
  ResealStep step;
  absl::StatusOr<std::vector<StoredRecord>> read = ReadContents(op, step);
  if (!read.ok()) return read.status();
  std::map<RecordId, Record> records;
  std::vector<StoredContent> contents;
  for (StoredRecord& stored : *read) {
    Record& record = stored.record;
    contents.push_back({record.id, record.key, record.token, record.fingerprints,
                        std::move(record.reply), stored.completed_digest,
                        std::move(stored.checkpoint)});
    records.emplace(record.id, std::move(record));
  }
  const std::vector<ContentReplacement> replacements = ResealAll(*op.sealer, std::move(contents));
  std::optional<RecordId> last;
  absl::Status failure;
  for (const ContentReplacement& replacement : replacements) {
    if (!op.validate_only) {
      const absl::StatusOr<bool> replaced =
          walk_.UnlessLocked([&] { return Replace(replacement); });
      if (!replaced.ok()) {
        failure = ToCallerStatus(replaced.status());
        break;
      }
      if (!*replaced) {
        step.busy += 1;
        continue;
      }
    }
    step.resealed.push_back(replacement.before.id);
    last = last ? std::max(*last, replacement.before.id) : replacement.before.id;
  }
  if (!op.validate_only && last) {
    // Also of those before a failure: the repeated step finds them resealed.
    const absl::Status noted = Note(op, records.at(*last), step);
    if (!noted.ok()) return noted;
  }
  if (!failure.ok()) return failure;
  return step;
}

absl::Status SingleRowReseal::Note(const ResealOp& op, const Record& last, const ResealStep& step) {
  const absl::StatusOr<std::string> audit_key = ReadAuditKey(records_.connection());
  if (!audit_key.ok()) return audit_key.status();
  const absl::StatusOr<SingleRowTime> time = records_.ReadTime();
  if (!time.ok()) return ToCallerStatus(time.status());
  const absl::Status noted =
      walk_.NoteAudit(op.note, AuditAction::kResealed, /*forced=*/false, *audit_key, last,
                      static_cast<std::int64_t>(step.resealed.size()), time->now);
  return noted.ok() ? noted : ToCallerStatus(noted);
}

}  // namespace idempotency::internal
