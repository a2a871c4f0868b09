#include "server/store/postgres/batched/reseal.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "core/sha256.h"
#include "server/store/audit_hmac.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/audit_key.h"
#include "server/store/postgres/records/batch.h"
#include "server/store/postgres/records/reply_digests.h"
#include "server/store/postgres/records/unreadable_rows.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

// Columns of read_contents.
enum : int {
  kId,
  kNamespace,
  kScope,
  kOperation,
  kKey,
  kToken,
  kFingerprints,
  kState,
  kReplyDigest,
  kStatusDigest,
  kReply,
  kCheckpoint,
};

bool IsCompleted(const PostgresResult& rows, int row) {
  return RecordStateFrom(rows.Integer(row, kState)) == RecordState::kCompleted;
}

// nullopt for a row that this program cannot have written.
std::optional<StoredContent> ReadContent(const PostgresResult& rows, int row) {
  StoredContent content;
  content.id = rows.GetUuid(row, kId);
  content.key = {rows.Text(row, kNamespace), rows.Text(row, kScope), rows.Text(row, kOperation),
                 rows.Text(row, kKey)};
  content.token = rows.GetUuid(row, kToken);
  // A tombstone has none.
  if (const std::string prints = rows.Bytea(row, kFingerprints); !prints.empty()) {
    absl::StatusOr<std::vector<Fingerprint>> decoded = DecodeFingerprints(prints);
    if (!decoded.ok()) return std::nullopt;
    content.fingerprints = *std::move(decoded);
  }
  if (IsCompleted(rows, row)) {
    EncodedReply reply{rows.Bytea(row, kReply), {}};
    if (!ReadDigest(rows, row, kReplyDigest, reply.digest)) return std::nullopt;
    if (!rows.IsNull(row, kStatusDigest)) {
      content.completed_digest = reply.digest;
      if (!ReadDigest(rows, row, kStatusDigest, reply.digest)) return std::nullopt;
    }
    content.reply = std::move(reply);
  }
  if (!rows.IsNull(row, kCheckpoint)) content.checkpoint = rows.Bytea(row, kCheckpoint);
  return content;
}

void AppendDigests(const ReplyDigests& digests, PostgresArray& replies, PostgresArray& statuses) {
  replies.AppendBytes(AsBytes(digests.reply));
  if (digests.status) {
    statuses.AppendBytes(AsBytes(*digests.status));
  } else {
    statuses.AppendNull();
  }
}

// $5 to $13 of the statement.
PostgresParameters ParametersOf(absl::Span<const ContentReplacement> replacements) {
  PostgresArray ids(PostgresType::kUuid);
  PostgresArray tokens(PostgresType::kUuid);
  std::array<PostgresArray, 7> columns = {
      PostgresArray(PostgresType::kBytea), PostgresArray(PostgresType::kBytea),
      PostgresArray(PostgresType::kBytea), PostgresArray(PostgresType::kBytea),
      PostgresArray(PostgresType::kBytea), PostgresArray(PostgresType::kBytea),
      PostgresArray(PostgresType::kBytea)};
  auto& [old_reply, old_status, replies, new_reply, new_status, old_checkpoints, checkpoints] =
      columns;
  for (const auto& [before, after] : replacements) {
    ids.AppendUuid(before.id);
    tokens.AppendUuid(before.token);
    if (after.reply) {
      AppendDigests(ReplyDigestsOf(before.completed_digest, *before.reply), old_reply, old_status);
      replies.AppendBytes(after.reply->bytes);
      AppendDigests(ReplyDigestsOf(before.completed_digest, *after.reply), new_reply, new_status);
    } else {
      for (PostgresArray* const column :
           {&old_reply, &old_status, &replies, &new_reply, &new_status}) {
        column->AppendNull();
      }
    }
    if (after.checkpoint) {
      old_checkpoints.AppendBytes(before.checkpoint);
      checkpoints.AppendBytes(*after.checkpoint);
    } else {
      old_checkpoints.AppendNull();
      checkpoints.AppendNull();
    }
  }
  PostgresParameters parameters;
  parameters.Add(ids);
  parameters.Add(tokens);
  for (PostgresArray& column : columns) parameters.Add(std::move(column));
  return parameters;
}

std::vector<RecordId> IdsIn(const PostgresResult& result, int column) {
  std::vector<RecordId> ids;
  for (const std::string& id : result.TextArray(0, column)) {
    ids.push_back(Uuid::Parse(id).value_or(Uuid()));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool Has(const std::vector<RecordId>& ids, const RecordId& id) {
  return std::binary_search(ids.begin(), ids.end(), id);
}

}  // namespace

absl::StatusOr<ResealStep> BatchedReseal::Step(const ResealOp& op) {
  ResealStep step;
  absl::StatusOr<std::vector<StoredContent>> contents = Read(op, step);
  if (!contents.ok()) return contents.status();
  std::vector<ContentReplacement> replacements = ResealAll(*op.sealer, *std::move(contents));
  if (op.validate_only) {
    for (const auto& replacement : replacements) step.resealed.push_back(replacement.before.id);
    return step;
  }
  if (replacements.empty()) return step;
  std::sort(replacements.begin(), replacements.end(),
            [](const auto& a, const auto& b) { return a.before.id < b.before.id; });
  const absl::StatusOr<std::string> audit_key = ReadAuditKey(connection_);
  if (!audit_key.ok()) return audit_key.status();
  const absl::Status replaced = Replace(op, *audit_key, replacements, step);
  if (!replaced.ok()) return replaced;
  return step;
}

absl::StatusOr<std::vector<StoredContent>> BatchedReseal::Read(const ResealOp& op,
                                                               ResealStep& step) {
  const RecordPlace after = op.after.value_or(RecordPlace());
  return ReadOrStepOver(
      RecordPlaces(connection_, statements_.places, unreadable_, ListWalk::kNamespace,
                   op.name_space, Look::kAlways),
      after, op.limit,
      [&](int limit, const std::optional<RecordPlace>&) {
        return ReadNext(op.name_space, after, limit, step);
      },
      [&step](const RecordPlace& unreadable) -> absl::StatusOr<std::vector<StoredContent>> {
        step.examined = 1;
        step.damaged.push_back(unreadable.id);
        step.next = unreadable;
        return std::vector<StoredContent>();
      });
}

absl::StatusOr<std::vector<StoredContent>> BatchedReseal::ReadNext(const std::string& name_space,
                                                                   const RecordPlace& after,
                                                                   int limit, ResealStep& step) {
  PostgresParameters parameters;
  parameters.AddBytes(name_space);
  parameters.AddBytes(after.scope);
  parameters.Add(after.id);
  parameters.Add(limit);
  const auto rows = connection_.Execute(statements_.read_contents, parameters);
  if (!rows.ok()) return rows.status();
  std::vector<StoredContent> contents;
  for (int row = 0; row < rows->rows(); ++row) {
    // Its reply was left out: the next step begins here.
    if (IsCompleted(*rows, row) && rows->IsNull(row, kReply)) return contents;
    step.examined += 1;
    step.next = RecordPlace{rows->Text(row, kScope), rows->GetUuid(row, kId)};
    std::optional<StoredContent> content = ReadContent(*rows, row);
    if (content) {
      contents.push_back(*std::move(content));
    } else {
      step.damaged.push_back(step.next->id);
    }
  }
  if (rows->rows() < limit) step.next.reset();
  return contents;
}

absl::Status BatchedReseal::Replace(const ResealOp& op, const std::string& audit_key,
                                    absl::Span<const ContentReplacement> replacements,
                                    ResealStep& step) {
  const HmacPads pads = HmacPadsOf(audit_key);
  PostgresParameters parameters;
  parameters.AddBytes(op.note.actor);
  parameters.AddBytes(op.note.reason);
  parameters.AddBytes(pads.inner);
  parameters.AddBytes(pads.outer);
  parameters.Append(ParametersOf(replacements));
  const auto done = connection_.Execute(statements_.reseal, parameters);
  if (IsUnreadable(done.status())) return ReplaceByHalves(op, audit_key, replacements, step);
  if (!done.ok()) return ToCallerStatus(done.status());
  const std::vector<RecordId> replies = IdsIn(*done, 0);
  const std::vector<RecordId> checkpoints = IdsIn(*done, 1);
  for (const auto& [before, after] : replacements) {
    const bool whole = (!after.reply || Has(replies, before.id)) &&
                       (!after.checkpoint || Has(checkpoints, before.id));
    if (whole) {
      step.resealed.push_back(before.id);
    } else {
      step.busy += 1;
    }
  }
  return absl::OkStatus();
}

// The server fails the statement of all for one row that it cannot write: that one is left.
absl::Status BatchedReseal::ReplaceByHalves(const ResealOp& op, const std::string& audit_key,
                                            absl::Span<const ContentReplacement> replacements,
                                            ResealStep& step) {
  if (replacements.size() == 1) {
    step.busy += 1;
    return absl::OkStatus();
  }
  const std::size_t half = replacements.size() / 2;
  const absl::Status first = Replace(op, audit_key, replacements.first(half), step);
  if (!first.ok()) return first;
  return Replace(op, audit_key, replacements.subspan(half), step);
}

}  // namespace idempotency::internal
