// The sweep of the Redis store.
#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/sha256.h"
#include "server/store/batch_weight.h"
#include "server/store/limits.h"
#include "server/store/redis/record.h"
#include "server/store/redis/redis_store.h"
#include "server/store/redis/tombstone.h"
#include "server/store/reply_envelope.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

using Field = RedisCalls::Field;

// A process that ended in a pass keeps the others from sweeping for this long.
constexpr absl::Duration kSweepLock = absl::Minutes(1);

SweepView ViewOf(const StoredRecord& stored) {
  const Record& record = stored.record;
  SweepView view;
  view.state = record.state;
  view.on_lease_expiry = record.on_lease_expiry;
  view.lease_expires_at = record.lease_expires_at;
  view.expires_at = record.expires_at;
  view.reply_expires_at = record.reply_expires_at;
  view.tombstone_until = record.tombstone_until;
  view.reply_dropped = stored.completed_digest.has_value();
  view.entombed = record.fingerprints.empty();
  return view;
}

std::string StateField(RecordState state) { return absl::StrCat(static_cast<int>(ToProto(state))); }

// Of a record that was read with its reply; empty if that cannot be reduced.
std::vector<Field> WithoutReply(const StoredRecord& stored) {
  const absl::StatusOr<EncodedReply> rest = StoredWithoutContent(*stored.record.reply);
  if (!rest.ok()) return {};
  return {{"rp", rest->bytes},
          {"rd", std::string(AsBytes(rest->digest))},
          {"cd", std::string(AsBytes(stored.record.reply->digest))}};
}

std::int64_t& CountOf(SweepAction action, SweepProgress& progress) {
  switch (action) {
    case SweepAction::kEntomb:
      return progress.entombed;
    case SweepAction::kDropReply:
      return progress.replies_dropped;
    case SweepAction::kMarkUnknown:
      return progress.marked_unknown;
    case SweepAction::kKeep:
    case SweepAction::kRemove:
      break;
  }
  return progress.removed;
}

}  // namespace

std::vector<Field> RedisTombstoneFields(const std::optional<TombstoneTimes>& times) {
  std::vector<Field> fields = {{"st", StateField(RecordState::kReleased)}, {"rc", "0"}};
  for (const char* const name :
       {"rt", "cm", "ru", "fp", "pa", "lb", "rr", "cp", "rd", "cd", "rp"}) {
    fields.push_back({name, ""});
  }
  if (!times) return fields;
  fields.push_back({"ea", RedisTime(times->expires_at)});
  fields.push_back({"tu", RedisTime(times->tombstone_until)});
  return fields;
}

absl::StatusOr<bool> RedisStore::HoldSweep(const SweepOp& op) {
  const absl::StatusOr<RedisReply> held = RunOne(calls_.SweepLock(owner_, kSweepLock));
  if (!held.ok()) return held.status();
  MutexLock lock(mutex_);
  if (!op.after) {
    tally_ = Tally();
    tally_.whole = true;
  }
  return held->value().integer() == 1;
}

absl::StatusOr<SweepProgress> RedisStore::Sweep(const SweepOp& op) {
  // Without the lock too: this process alone knows them.
  RestoreEntries();
  SweepProgress progress;
  const absl::StatusOr<bool> held = HoldSweep(op);
  if (!held.ok()) return held.status();
  if (!*held) {
    progress.elsewhere = true;
    return progress;
  }
  const absl::StatusOr<Walk> walk = WalkFrom(op.after, op.until, {}, op.limit);
  if (!walk.ok()) return walk.status();
  progress.visited = static_cast<std::int64_t>(walk->visits.size());
  progress.next = walk->next ? walk->next : op.until;
  if (absl::Status swept = SweepVisits(*walk, progress); !swept.ok()) return swept;
  Count(op, *walk, progress);
  return progress;
}

absl::Status RedisStore::SweepVisits(const Walk& walk, SweepProgress& progress) {
  std::vector<const RedisIndex::Entry*> gone;
  std::vector<RedisCall> changes;
  std::vector<std::pair<SweepAction, const RedisIndex::Entry*>> changed;
  std::vector<const Visit*> with_replies;
  for (const Visit& visit : walk.visits) {
    // A damaged one stays; a read of that record reports it.
    if (!visit.read.ok()) continue;
    if (!visit.read->stored) {
      gone.push_back(&visit.entry);
      continue;
    }
    const StoredRecord& stored = *visit.read->stored;
    const SweepAction action = DecideSweep(ViewOf(stored), visit.read->now);
    switch (action) {
      case SweepAction::kKeep:
        continue;
      case SweepAction::kDropReply:
        with_replies.push_back(&visit);
        continue;
      case SweepAction::kRemove:
        changes.push_back(calls_.Remove(stored));
        break;
      case SweepAction::kEntomb:
        changes.push_back(calls_.Change(stored, RedisTombstoneFields(), RedisCalls::IfFull::kMade));
        break;
      case SweepAction::kMarkUnknown:
        changes.push_back(calls_.Change(stored,
                                        {{"st", StateField(RecordState::kUnknown)}, {"rr", ""}},
                                        RedisCalls::IfFull::kMade));
        break;
    }
    changed.emplace_back(action, &visit.entry);
  }
  const Replies done = Run(changes);
  absl::Status failure;
  for (std::size_t i = 0; i < done.size(); ++i) {
    // One that cannot be changed does not keep the others: the next pass begins with it again.
    if (!done[i].ok()) {
      failure.Update(ToRedisCallerStatus(done[i].status()));
      continue;
    }
    if (done[i]->value().integer() == 0) continue;
    CountOf(changed[i].first, progress) += 1;
    if (changed[i].first == SweepAction::kRemove) gone.push_back(changed[i].second);
  }
  DropEntries(gone);
  failure.Update(DropReplies(with_replies, progress));
  return failure;
}

absl::Status RedisStore::DropReplies(const std::vector<const Visit*>& visits,
                                     SweepProgress& progress) {
  for (auto next = visits.begin(); next != visits.end();) {
    std::vector<RedisCall> reads;
    std::vector<RecordId> ids;
    BatchWeight weight;
    for (; next != visits.end() && !weight.IsFull(); ++next) {
      weight.Add((*next)->read->reply_bytes);
      ids.push_back((*next)->entry.id);
      reads.push_back(calls_.Read(ids.back(), limits::kMaxRedisReplyBytes, /*confirmed=*/false));
    }
    std::vector<RedisCall> changes;
    const Replies replies = Run(reads);
    for (std::size_t i = 0; i < replies.size(); ++i) {
      if (!replies[i].ok()) return ToRedisCallerStatus(replies[i].status());
      const auto read = ReadRedisRecord(ids[i], replies[i]->value());
      if (!read.ok() || !read->stored || !read->stored->record.reply || read->reply_left_out) {
        continue;
      }
      // It may have been started afresh meanwhile.
      if (DecideSweep(ViewOf(*read->stored), read->now) != SweepAction::kDropReply) continue;
      const std::vector<Field> fields = WithoutReply(*read->stored);
      if (!fields.empty()) {
        changes.push_back(calls_.Change(*read->stored, fields, RedisCalls::IfFull::kMade));
      }
    }
    for (const absl::StatusOr<RedisReply>& reply : Run(changes)) {
      if (!reply.ok()) return ToRedisCallerStatus(reply.status());
      progress.replies_dropped += reply->value().integer();
    }
  }
  return absl::OkStatus();
}

void RedisStore::Count(const SweepOp& op, const Walk& walk, const SweepProgress& progress) {
  Tally tally;
  {
    MutexLock lock(mutex_);
    for (const Visit& visit : walk.visits) {
      if (!visit.read.ok() || !visit.read->stored) continue;
      const Record& record = visit.read->stored->record;
      const bool live =
          record.state == RecordState::kReserved && visit.read->now < record.lease_expires_at;
      const bool lapsed = record.state == RecordState::kReserved && !live &&
                          record.on_lease_expiry == LeaseExpiry::kRequireRecovery;
      if (record.state == RecordState::kUnknown || lapsed) tally_.unknown += 1;
      if (live) {
        tally_.oldest_reserved =
            std::min(tally_.oldest_reserved.value_or(absl::InfiniteFuture()), record.created_at);
      }
    }
    tally = tally_;
  }
  if (progress.next || op.until) return;
  std::vector<RedisCall> calls;
  if (tally.whole) {
    calls.push_back(calls_.Anyway(
        {"HSET", absl::StrCat(options_.prefix, ":gauges"), "unknown",
         absl::StrCat(std::min(tally.unknown, StoreGauges::kMaxCountedUnknown)), "oldest_reserved",
         tally.oldest_reserved ? RedisTime(*tally.oldest_reserved) : std::string()}));
  }
  calls.push_back(calls_.SweepLock(owner_, absl::ZeroDuration()));
  Run(calls);
}

}  // namespace idempotency::internal
