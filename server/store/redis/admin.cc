// The administrator's part of the Redis store: walks through the index, and changes of single
// records with their entries of the audit log.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/sha256.h"
#include "grpc_idempotency/errors.h"
#include "server/store/admin_decision.h"
#include "server/store/audit_hmac.h"
#include "server/store/redis/record.h"
#include "server/store/redis/redis_store.h"
#include "server/store/redis/tombstone.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

using Field = RedisCalls::Field;

// How often a record that changes between read and write is read again.
constexpr int kMaxTries = 5;

absl::Status KeepsChanging() {
  return MakeError(Reason::kStoreUnavailable, "the record keeps changing; try again");
}

// The fields of a settled record.
std::vector<Field> SettledFields(const ResolveOp& op, const Resolution& to,
                                 const StoredRecord& stored, absl::Time now) {
  const Record& record = stored.record;
  std::vector<Field> fields = {{"st", absl::StrCat(static_cast<int>(ToProto(to.state)))},
                               {"tk", std::string(UuidBytes(op.token))},
                               {"ea", RedisTime(to.expires_at)}};
  if (const auto until = TombstoneAfter(record, to.expires_at)) {
    fields.push_back({"tu", RedisTime(*until)});
  }
  if (op.reply) {
    fields.push_back({"cm", RedisTime(now)});
    fields.push_back({"rp", op.reply->bytes});
    fields.push_back({"rd", std::string(AsBytes(op.reply->digest))});
    fields.push_back({"cd", ""});
  } else {
    fields.push_back({"rr", op.note.reason});
    fields.push_back({"le", RedisTime(now)});
  }
  return fields;
}

// The sequence of an entry from its id in the stream, "milliseconds-number", and back. More than a
// million entries in a millisecond do not fit; they would take an hour to write.
constexpr std::int64_t kPerMillisecond = 1'000'000;

std::int64_t SequenceOf(std::string_view id) {
  std::int64_t millis = 0;
  std::int64_t number = 0;
  const auto read = std::from_chars(id.data(), id.data() + id.size(), millis);
  if (read.ptr != id.data() + id.size()) {
    std::from_chars(read.ptr + 1, id.data() + id.size(), number);
  }
  return millis * kPerMillisecond + number;
}

std::string StreamIdOf(std::int64_t sequence) {
  return absl::StrCat(sequence / kPerMillisecond, "-", sequence % kPerMillisecond);
}

std::string StreamIdBehind(std::int64_t sequence) {
  return absl::StrCat(sequence / kPerMillisecond, "-", sequence % kPerMillisecond + 1);
}

AuditEntry EntryFrom(const std::string& name_space, RedisValue stored) {
  AuditEntry entry;
  entry.name_space = name_space;
  entry.sequence = SequenceOf(stored[0].text());
  std::map<std::string_view, RedisValue> fields;
  const RedisValue values = stored[1];
  for (std::size_t i = 1; i < values.size(); i += 2) fields[values[i - 1].text()] = values[i];
  entry.at = absl::FromUnixMicros(fields["at"].integer());
  entry.note = {std::string(fields["actor"].text()), std::string(fields["reason"].text())};
  entry.action = static_cast<AuditAction>(fields["action"].integer());
  entry.forced = fields["forced"].integer() != 0;
  entry.record_id = UuidFrom(fields["id"].text()).value_or(RecordId());
  entry.key_hmac = AuditHmacFrom(fields["hmac"].text());
  entry.state = RecordStateFrom(fields["state"].integer()).value_or(RecordState::kUnknown);
  entry.attempt = static_cast<std::uint32_t>(fields["attempt"].integer());
  return entry;
}

}  // namespace

std::string RedisStore::AuditLogOf(const std::string& name_space) const {
  return absl::StrCat(options_.prefix, ":a:", name_space);
}

absl::StatusOr<std::string> RedisStore::AuditKey() {
  {
    MutexLock lock(mutex_);
    if (!audit_key_.empty()) return audit_key_;
  }
  const std::string name = absl::StrCat(options_.prefix, ":audit_key");
  const RedisCall write = calls_.Anyway(
      {"SET", name, absl::StrCat(Uuid::Random().ToString(), Uuid::Random().ToString()), "NX"});
  if (const auto written = RunOne(write); !written.ok()) return written.status();
  const absl::StatusOr<RedisReply> read = RunOne(RedisCalls::Plain({"GET", name}));
  if (!read.ok()) return read.status();
  MutexLock lock(mutex_);
  audit_key_ = std::string(read->value().text());
  return audit_key_;
}

RedisCall RedisStore::AuditCall(const AuditEntry& entry, RedisCalls::IfFull if_full) const {
  const std::string log = AuditLogOf(entry.name_space);
  const std::string at = RedisTime(entry.at);
  const std::string action = absl::StrCat(static_cast<int>(entry.action));
  const std::string state = absl::StrCat(static_cast<int>(ToProto(entry.state)));
  const std::string attempt = absl::StrCat(entry.attempt);
  const std::string_view command[] = {"XADD",
                                      log,
                                      "*",
                                      "at",
                                      at,
                                      "actor",
                                      entry.note.actor,
                                      "reason",
                                      entry.note.reason,
                                      "action",
                                      action,
                                      "forced",
                                      entry.forced ? "1" : "0",
                                      "id",
                                      UuidBytes(entry.record_id),
                                      "hmac",
                                      AsBytes(entry.key_hmac),
                                      "state",
                                      state,
                                      "attempt",
                                      attempt};
  if (if_full == RedisCalls::IfFull::kMade) return calls_.Anyway(command);
  RedisCall call = RedisCalls::Plain(command);
  call.confirm = true;
  return call;
}

void RedisStore::TakeBack(const std::string& name_space, const std::vector<std::string>& entries) {
  std::vector<RedisCall> calls;
  for (const std::string& entry : entries) {
    calls.push_back(RedisCalls::Plain({"XDEL", AuditLogOf(name_space), entry}));
  }
  Run(calls);
}

absl::StatusOr<RedisRead> RedisStore::ReadOne(const RecordId& id) {
  const absl::StatusOr<RedisReply> reply = RunOne(calls_.Read(id, 0, /*confirmed=*/false));
  if (!reply.ok()) return reply.status();
  return ReadRedisRecord(id, reply->value());
}

absl::StatusOr<RedisStore::Walk> RedisStore::WalkFrom(const std::optional<RecordId>& after,
                                                      const std::optional<RecordId>& until,
                                                      const RedisIndex::Filter& filter, int limit) {
  const absl::StatusOr<Pool::Lease> connections = pool_.Acquire();
  if (!connections.ok()) return ToRedisCallerStatus(connections.status());
  absl::StatusOr<RedisIndex::Page> page = index_.Read(**connections, after, until, filter, limit);
  if (!page.ok()) return page.status();
  std::vector<RedisCall> reads;
  for (const RedisIndex::Entry& entry : page->entries) {
    reads.push_back(calls_.Read(entry.id, 0, /*confirmed=*/false));
  }
  const Replies replies = (*connections)->Run(reads);
  Walk walk;
  walk.next = page->next;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i].ok() && replies[i].status().code() != absl::StatusCode::kDataLoss) {
      return ToRedisCallerStatus(replies[i].status());
    }
    absl::StatusOr<RedisRead> read = RedisRecordDamaged();
    if (replies[i].ok()) read = ReadRedisRecord(page->entries[i].id, replies[i]->value());
    walk.visits.push_back({std::move(page->entries[i]), std::move(read)});
  }
  return walk;
}

void RedisStore::DropEntries(const std::vector<const RedisIndex::Entry*>& gone) {
  if (gone.empty() || !RestoreEntries()) return;
  std::vector<RedisCall> removals;
  std::vector<RedisCall> checks;
  for (const RedisIndex::Entry* const entry : gone) {
    for (const std::string& member : entry->members) removals.push_back(index_.Remove(member));
    checks.push_back(RedisCalls::Plain({"EXISTS", calls_.KeyOf(entry->id)}));
  }
  Run(removals);
  // A reservation in between may have written its record before the removal of its entry.
  std::vector<std::string> back_again;
  const Replies back = Run(checks);
  for (std::size_t i = 0; i < back.size(); ++i) {
    if (back[i].ok() && back[i]->value().integer() == 0) continue;
    back_again.insert(back_again.end(), gone[i]->members.begin(), gone[i]->members.end());
  }
  {
    MutexLock lock(mutex_);
    unrestored_.insert(unrestored_.end(), back_again.begin(), back_again.end());
  }
  RestoreEntries();
}

bool RedisStore::RestoreEntries() {
  std::vector<std::string> members;
  {
    MutexLock lock(mutex_);
    members.swap(unrestored_);
  }
  if (members.empty()) return true;
  std::vector<RedisCall> restored;
  for (const std::string& member : members) restored.push_back(index_.AddMember(member));
  std::vector<std::string> left;
  const Replies replies = Run(restored);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i].ok()) left.push_back(std::move(members[i]));
  }
  if (left.empty()) return true;
  MutexLock lock(mutex_);
  unrestored_.insert(unrestored_.end(), left.begin(), left.end());
  return false;
}

absl::StatusOr<RecordPage> RedisStore::List(const ListOp& op) {
  std::optional<RecordId> after;
  if (op.after) after = op.after->id;
  const absl::StatusOr<Walk> walk =
      WalkFrom(after, std::nullopt, {op.name_space, op.scope}, std::max(op.limit, VisitLimit(op)));
  if (!walk.ok()) return walk.status();
  RecordPage page;
  for (const Visit& visit : walk->visits) {
    if (page.records.size() == static_cast<std::size_t>(op.limit)) return page;
    page.next = RecordPlace{"", visit.entry.id};
    if (!visit.read.ok()) ++page.damaged;
    if (!visit.read.ok() || !visit.read->stored) continue;
    if (!IsListed(op, visit.read->stored->record, visit.read->now)) continue;
    page.records.push_back(visit.read->stored->record);
    page.records.back().reply.reset();
  }
  page.next.reset();
  if (walk->next) page.next = RecordPlace{"", *walk->next};
  return page;
}

absl::StatusOr<UsageStep> RedisStore::MeasureUsage(const UsageOp& op) {
  std::optional<RecordId> after;
  if (op.after) after = op.after->id;
  const absl::StatusOr<Walk> walk =
      WalkFrom(after, std::nullopt, {op.name_space, std::nullopt}, op.limit);
  if (!walk.ok()) return walk.status();
  UsageStep step;
  for (const Visit& visit : walk->visits) {
    step.visited += 1;
    if (!visit.read.ok() || !visit.read->stored) continue;
    const Record& record = visit.read->stored->record;
    if (record.key.name_space != op.name_space || IsForgotten(record, visit.read->now)) continue;
    step.usage.records += 1;
    step.usage.reply_bytes += static_cast<std::int64_t>(visit.read->reply_bytes);
  }
  if (walk->next) step.next = RecordPlace{"", *walk->next};
  return step;
}

absl::StatusOr<EndUnknownStep> RedisStore::EndUnknown(const EndUnknownOp& op) {
  const absl::StatusOr<Walk> walk =
      WalkFrom(op.after, std::nullopt, {op.name_space, std::nullopt}, op.limit);
  if (!walk.ok()) return walk.status();
  EndUnknownStep step;
  step.visited = static_cast<std::int64_t>(walk->visits.size());
  step.next = walk->next;
  std::vector<RedisCall> changes;
  for (const Visit& visit : walk->visits) {
    if (!visit.read.ok() || !visit.read->stored) continue;
    const Record& record = visit.read->stored->record;
    const absl::Time now = visit.read->now;
    if (record.key.name_space != op.name_space || record.state != RecordState::kUnknown ||
        now < record.lease_expires_at + op.life) {
      continue;
    }
    changes.push_back(calls_.Change(
        *visit.read->stored,
        RedisTombstoneFields(TombstoneOf(record, RefusedAfterUnknown(record, now), now)),
        RedisCalls::IfFull::kMade));
  }
  for (const absl::StatusOr<RedisReply>& reply : Run(changes)) {
    if (!reply.ok()) return ToRedisCallerStatus(reply.status());
    step.ended += reply->value().integer();
  }
  return step;
}

absl::StatusOr<Resolution> RedisStore::Resolve(const ResolveOp& op) {
  for (int i = 0; i < kMaxTries; ++i) {
    bool changed = false;
    absl::StatusOr<Resolution> resolution = ResolveOnce(op, changed);
    if (!changed) return resolution;
  }
  return KeepsChanging();
}

absl::StatusOr<Resolution> RedisStore::ResolveOnce(const ResolveOp& op, bool& changed) {
  const absl::StatusOr<RedisRead> read = ReadOne(op.id);
  if (!read.ok()) return read.status();
  ResolveDecision decision = DecideResolve(op, read->now, read->stored);
  if (!decision.answer.ok()) return decision.answer;
  const absl::StatusOr<std::string> audit_key = AuditKey();
  if (!audit_key.ok()) return audit_key.status();
  decision.answer->key_hmac = AuditHmac(*audit_key, op.key);
  if (!decision.writes) return decision.answer;
  AuditEntry entry = EntryFor(read->stored->record, op.note, ActionOf(op), op.force, read->now);
  entry.key_hmac = decision.answer->key_hmac;
  const absl::StatusOr<RedisReply> noted = RunOne(AuditCall(entry, RedisCalls::IfFull::kRefused));
  if (!noted.ok()) return noted.status();
  const absl::StatusOr<RedisReply> settled = RunOne(
      calls_.Change(*read->stored, SettledFields(op, *decision.answer, *read->stored, read->now),
                    RedisCalls::IfFull::kRefused));
  if (!settled.ok()) return settled.status();
  changed = settled->value().integer() == 0;
  if (changed) TakeBack(entry.name_space, {std::string(noted->value().text())});
  return decision.answer;
}

absl::StatusOr<ResealStep> RedisStore::Reseal(const ResealOp& /*op*/) {
  return MakeError(Reason::kRequestInvalid,
                   "records on Redis are not resealed: keep the previous key in the ring until the "
                   "longest retention of a record is over");
}

absl::StatusOr<PurgeStep> RedisStore::Purge(const PurgeOp& op) {
  if (op.key) return PurgeOne(op);
  std::optional<RecordId> after;
  if (op.after) after = op.after->id;
  const absl::StatusOr<Walk> walk =
      WalkFrom(after, std::nullopt, {op.name_space, op.scope}, op.limit);
  if (!walk.ok()) return walk.status();
  PurgeStep step;
  std::vector<const StoredRecord*> records;
  std::vector<const RedisIndex::Entry*> entries;
  absl::Time now;
  for (const Visit& visit : walk->visits) {
    if (!visit.read.ok()) {
      step.busy += 1;
      continue;
    }
    if (!visit.read->stored) continue;
    const StoredRecord& stored = *visit.read->stored;
    if (stored.record.key.name_space != op.name_space ||
        (op.scope && stored.record.key.scope != *op.scope) || !IsTarget(op, stored.record)) {
      continue;
    }
    if (!op.force && NeedsForce(stored.record, visit.read->now)) {
      step.refused += 1;
      continue;
    }
    now = std::max(now, visit.read->now);
    records.push_back(&stored);
    entries.push_back(&visit.entry);
  }
  if (walk->next) step.next = RecordPlace{"", *walk->next};
  if (op.validate_only) {
    for (const StoredRecord* const stored : records) step.purged.push_back(stored->record.id);
    return step;
  }
  const absl::StatusOr<std::vector<bool>> done = Forget(op, records, now);
  if (!done.ok()) return done.status();
  std::vector<const RedisIndex::Entry*> gone;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!(*done)[i]) {
      step.busy += 1;
      continue;
    }
    step.purged.push_back(records[i]->record.id);
    if (op.tombstone == absl::ZeroDuration()) gone.push_back(entries[i]);
  }
  DropEntries(gone);
  return step;
}

absl::StatusOr<PurgeStep> RedisStore::PurgeOne(const PurgeOp& op) {
  const RecordId id = RecordIdFor(*op.key);
  for (int i = 0; i < kMaxTries; ++i) {
    const absl::StatusOr<RedisRead> read = ReadOne(id);
    if (!read.ok()) return read.status();
    if (const absl::Status may = CheckPurge(op, read->now, read->stored); !may.ok()) return may;
    const absl::StatusOr<std::string> audit_key = AuditKey();
    if (!audit_key.ok()) return audit_key.status();
    PurgeStep step;
    step.key_hmac = AuditHmac(*audit_key, *op.key);
    step.before = read->stored->record.state;
    step.attempt = read->stored->record.attempt;
    step.purged.push_back(id);
    if (op.validate_only) return step;
    const absl::StatusOr<std::vector<bool>> done = Forget(op, {&*read->stored}, read->now);
    if (!done.ok()) return done.status();
    if (done->front()) return step;
  }
  return KeepsChanging();
}

absl::StatusOr<std::vector<bool>> RedisStore::Forget(
    const PurgeOp& op, const std::vector<const StoredRecord*>& records, absl::Time now) {
  const absl::StatusOr<std::string> audit_key = AuditKey();
  if (!audit_key.ok()) return audit_key.status();
  const bool entomb = op.tombstone > absl::ZeroDuration();
  std::vector<RedisCall> notes;
  std::vector<RedisCall> changes;
  for (const StoredRecord* const stored : records) {
    AuditEntry entry = EntryFor(stored->record, op.note, ActionOf(op), op.force, now);
    entry.key_hmac = AuditHmac(*audit_key, stored->record.key);
    notes.push_back(AuditCall(entry, RedisCalls::IfFull::kMade));
    changes.push_back(
        entomb ? calls_.Change(*stored,
                               RedisTombstoneFields(TombstoneOf(stored->record, op.tombstone, now)),
                               RedisCalls::IfFull::kMade)
               : calls_.Remove(*stored));
  }
  std::vector<std::string> noted;
  for (const absl::StatusOr<RedisReply>& reply : Run(notes)) {
    if (!reply.ok()) return ToRedisCallerStatus(reply.status());
    noted.emplace_back(reply->value().text());
  }
  std::vector<bool> done;
  std::vector<std::string> not_done;
  const Replies replies = Run(changes);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i].ok()) return ToRedisCallerStatus(replies[i].status());
    done.push_back(replies[i]->value().integer() == 1);
    if (!done.back()) not_done.push_back(noted[i]);
  }
  TakeBack(op.name_space, not_done);
  return done;
}

absl::StatusOr<AuditPage> RedisStore::ReadAudit(const AuditOp& op) {
  const std::string log = AuditLogOf(op.name_space);
  const std::string from = op.newest_first ? StreamIdOf(AuditPageMaker::Place(op))
                                           : StreamIdBehind(AuditPageMaker::Place(op));
  // Of the newest, one more: the first one is where the last page ended.
  const std::string count = absl::StrCat(AuditPageMaker::ReadLimit(op) + (op.newest_first ? 1 : 0));
  const absl::StatusOr<RedisReply> reply =
      RunOne(RedisCalls::Plain({op.newest_first ? "XREVRANGE" : "XRANGE", log, from,
                                op.newest_first ? "-" : "+", "COUNT", count}));
  if (!reply.ok()) return reply.status();
  AuditPageMaker page(op);
  const RedisValue entries = reply->value();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!page.Add(EntryFrom(op.name_space, entries[i]))) break;
  }
  return std::move(page).Take();
}

}  // namespace idempotency::internal
