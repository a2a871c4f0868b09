#include "server/store/redis/redis_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "grpc_idempotency/errors.h"
#include "server/store/batch_weight.h"
#include "server/store/decision.h"
#include "server/store/limits.h"
#include "server/store/redis/markers.h"
#include "server/store/redis/record.h"
#include "server/store/redis/slots.h"
#include "server/store/reply_envelope.h"

namespace idempotency::internal {
namespace {

DatabaseConnectionPoolOptions PoolOptions(const RedisOptions& options) {
  DatabaseConnectionPoolOptions pool;
  pool.size = options.connections;
  pool.acquire_timeout = options.acquire_timeout;
  pool.min_backoff = options.min_backoff;
  pool.max_backoff = options.max_backoff;
  return pool;
}

// Larger than any reply: read whatever it is.
constexpr std::size_t kEveryReply = limits::kMaxRedisReplyBytes;

// Of a call to nobody.
std::vector<absl::StatusOr<RedisReply>> AllFailed(std::size_t calls, const absl::Status& status) {
  std::vector<absl::StatusOr<RedisReply>> replies;
  replies.reserve(calls);
  for (std::size_t i = 0; i < calls; ++i) replies.emplace_back(status);
  return replies;
}

// The verdict with the reply that was read for it.
absl::StatusOr<Verdict> WithReply(Replay replay, const RecordId& id,
                                  const absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok()) return ToRedisCallerStatus(reply.status());
  absl::StatusOr<RedisRead> read = ReadRedisRecord(id, reply->value());
  if (!read.ok()) return read.status();
  // Something else happened to the record meanwhile: the caller's next call finds it.
  if (!read->stored || !read->stored->record.reply || read->reply_left_out ||
      read->stored->record.reply->digest != replay.reply.digest) {
    return BatchWeight::NextCall();
  }
  replay.reply = *std::move(read->stored->record.reply);
  return Verdict(std::move(replay));
}

// The sweep does not find such a reservation, so that its outcome would never become UNKNOWN. A
// repetition with the same request token adds the entry.
absl::Status HasNoEntry() {
  return MakeError(Reason::kStoreUnavailable,
                   "the store could not add the reservation to its index; repeat the call with the "
                   "same tokens");
}

absl::StatusOr<Verdict> WithoutContentOf(absl::StatusOr<Verdict> verdict) {
  auto* const replay = verdict.ok() ? std::get_if<Replay>(&*verdict) : nullptr;
  if (replay == nullptr) return verdict;
  absl::StatusOr<EncodedReply> rest = StoredWithoutContent(replay->reply);
  if (!rest.ok()) return rest.status();
  replay->reply = *std::move(rest);
  return verdict;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisStore>> RedisStore::Open(const RedisOptions& options) {
  if (absl::Status valid = ValidateRedisOptions(options); !valid.ok()) return valid;
  std::unique_ptr<RedisStore> store(new RedisStore(options));  // private constructor
  if (absl::Status begun = store->Begin(); !begun.ok()) return begun;
  return store;
}

RedisStore::RedisStore(const RedisOptions& options)
    : options_(options),
      calls_(options_),
      index_(options_),
      topology_(options_),
      identity_(options_),
      pool_(PoolOptions(options_), Clock::System(),
            [this] { return RedisConnections::Open(options_, topology_, identity_); }) {}

absl::Status RedisStore::Begin() {
  // Not through the pool, which keeps the reason of a failure to itself.
  auto connections = RedisConnections::Open(options_, topology_, identity_);
  if (!connections.ok()) return connections.status();
  // Every server is checked, also of a Cluster.
  const auto servers = topology_.Servers();
  if (!servers.ok()) return servers.status();
  for (const RedisAddress& server : *servers) {
    const auto checked = RedisConnection::Open(server, options_);
    if (!checked.ok() && !MayBeAway(checked.status())) return checked.status();
  }
  const RedisMarkers found = ReadRedisMarkers(**connections, identity_);
  // An outage of a part does not keep this process from the rest: each server is checked again when
  // it is reached. Faults are for a look at all of them.
  const bool faulty = found.faults.count() > 0;
  const bool enough = MayBeAway(found.unread) && !faulty && !found.identity.empty();
  if (!found.unread.ok() && !enough) return found.unread;
  if (faulty && !options_.accept_empty) return RefusedForMarkers(found.faults, options_);
  const absl::StatusOr<std::string> identity =
      faulty ? WriteRedisMarkers(**connections, identity_, found) : found.identity;
  if (!identity.ok()) return identity.status();
  if (!absl::StartsWith(*identity, RedisIdentity::kLayout)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the data under ", options_.prefix,
                     " are of another version of idempotencyd; use that version, or another "
                     "prefix"));
  }
  identity_.Set(*identity);
  WarnOfLosses(**connections);
  return absl::OkStatus();
}

bool RedisStore::MayBeAway(const absl::Status& failure) const {
  return options_.mode == RedisOptions::Mode::kCluster && absl::IsUnavailable(failure);
}

absl::StatusOr<RedisMarkers::Faults> RedisStore::FindMarkerFaults(const RedisOptions& options) {
  if (absl::Status valid = ValidateRedisOptions(options); !valid.ok()) return valid;
  RedisStore store(options);
  const auto connections = RedisConnections::Open(store.options_, store.topology_, store.identity_);
  if (!connections.ok()) return connections.status();
  const RedisMarkers found = ReadRedisMarkers(**connections, store.identity_);
  if (!found.unread.ok()) return found.unread;
  return found.faults;
}

void RedisStore::WarnOfLosses(RedisConnections& connections) {
  const auto servers = topology_.Servers();
  if (!servers.ok()) return;
  for (const RedisAddress& server : *servers) connections.WarnOfLosses(server);
  if (options_.mode != RedisOptions::Mode::kSingle && !options_.waits()) {
    spdlog::warn(
        "redis: replicas are not waited for: a replica that takes over may lack the last "
        "completions, and their operations run again. Set wait_replicas=1");
  }
}

RedisStore::Replies RedisStore::Run(absl::Span<const RedisCall> calls, Ran* ran) {
  if (lost_) {
    return AllFailed(calls.size(),
                     MakeError(Reason::kStoreUnavailable, "Redis lost records while it was used"));
  }
  return RunAnyway(calls, ran);
}

RedisStore::Replies RedisStore::RunAnyway(absl::Span<const RedisCall> calls, Ran* ran) {
  if (calls.empty()) return {};
  const absl::StatusOr<Pool::Lease> connections = pool_.Acquire();
  if (!connections.ok()) return AllFailed(calls.size(), connections.status());
  Replies replies = (*connections)->Run(calls);
  if (ran != nullptr) *ran = {(*connections)->ran_in_order(), (*connections)->answered_by()};
  return replies;
}

absl::StatusOr<RedisReply> RedisStore::RunOne(const RedisCall& call) {
  Replies replies = Run({&call, 1});
  if (!replies.front().ok()) return ToRedisCallerStatus(replies.front().status());
  return std::move(replies.front());
}

// By a clock that may differ from the server's.
bool RedisStore::MayBegin(const ReserveOp& op) const {
  if (op.only_existing) return false;
  const std::optional<absl::Time> made_at = KeyTime(op.key);
  if (!made_at) return true;
  const absl::Time now = (options_.clock != nullptr ? *options_.clock : Clock::System()).Now();
  return now < *made_at + op.window + limits::kClockStepMargin &&
         *made_at <= now + limits::kMaxKeyAhead + limits::kClockStepMargin;
}

std::vector<RedisStore::Placed> RedisStore::AddReservations(absl::Span<const ReserveOp> ops,
                                                            std::vector<RedisCall>& calls) const {
  std::vector<Placed> placed;
  for (const ReserveOp& op : ops) {
    placed.push_back({calls.size(), std::nullopt});
    calls.push_back(calls_.Reserve(op));
    // Keys that are refused leave nothing behind: they are as many as a caller likes.
    if (!MayBegin(op)) continue;
    // Behind the record: where an entry is removed because there is no record, it returns.
    placed.back().entry = calls.size();
    calls.push_back(index_.Add(op.key, op.id));
  }
  return placed;
}

void RedisStore::EnsureEntries(absl::Span<const ReserveOp> ops, const std::vector<Placed>& placed,
                               absl::Span<const absl::StatusOr<RedisReply>> replies, bool in_order,
                               std::vector<absl::StatusOr<Verdict>>& verdicts) {
  std::vector<std::size_t> granted;
  std::vector<RedisCall> entries;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!verdicts[i].ok() || !std::holds_alternative<Reserved>(*verdicts[i])) continue;
    if (in_order && placed[i].entry) {
      if (!replies[*placed[i].entry].ok()) verdicts[i] = HasNoEntry();
      continue;
    }
    granted.push_back(i);
    entries.push_back(index_.Add(ops[i].key, ops[i].id));
  }
  const Replies added = Run(entries);
  for (std::size_t i = 0; i < added.size(); ++i) {
    if (!added[i].ok()) verdicts[granted[i]] = HasNoEntry();
  }
}

std::vector<absl::StatusOr<Verdict>> RedisStore::VerdictsOf(
    absl::Span<const ReserveOp> ops, const std::vector<Placed>& placed,
    absl::Span<const absl::StatusOr<RedisReply>> replies, bool in_order) {
  std::vector<absl::StatusOr<Verdict>> verdicts;
  std::vector<RedisCall> reads;
  std::vector<std::size_t> read_for;
  std::vector<std::size_t> without_content;
  BatchWeight weight;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    RedisVerdict verdict = RedisCalls::VerdictOf(replies[placed[i].record]);
    const bool replays = verdict.verdict.ok() && std::holds_alternative<Replay>(*verdict.verdict);
    if (replays && weight.IsFull()) {
      verdicts.emplace_back(BatchWeight::NextCall());
      continue;
    }
    if (replays) weight.Add(verdict.reply_bytes);
    if (verdict.reply_left_out) {
      reads.push_back(calls_.Read(ops[i].id, kEveryReply, /*confirmed=*/false));
      read_for.push_back(i);
    }
    if (verdict.reply_over) without_content.push_back(i);
    verdicts.push_back(std::move(verdict.verdict));
  }
  const Replies read = Run(reads);
  for (std::size_t i = 0; i < read.size(); ++i) {
    absl::StatusOr<Verdict>& verdict = verdicts[read_for[i]];
    verdict = WithReply(std::move(std::get<Replay>(*verdict)), ops[read_for[i]].id, read[i]);
  }
  for (const std::size_t i : without_content) {
    verdicts[i] = WithoutContentOf(std::move(verdicts[i]));
  }
  EnsureEntries(ops, placed, replies, in_order, verdicts);
  return verdicts;
}

std::vector<absl::StatusOr<Verdict>> RedisStore::Reserve(absl::Span<const ReserveOp> ops) {
  std::vector<RedisCall> calls;
  const std::vector<Placed> placed = AddReservations(ops, calls);
  Ran ran;
  const Replies replies = Run(calls, &ran);
  return VerdictsOf(ops, placed, replies, ran.in_order);
}

SharedAnswers RedisStore::CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                             absl::Span<const ReserveOp> reservations) {
  std::vector<RedisCall> calls;
  for (const CompleteOp& op : completions) calls.push_back(calls_.Complete(op));
  const std::vector<Placed> placed = AddReservations(reservations, calls);
  Ran ran;
  const Replies replies = Run(calls, &ran);
  SharedAnswers answers;
  for (std::size_t i = 0; i < completions.size(); ++i) {
    answers.completions.push_back(RedisCalls::CompletionOf(replies[i]));
  }
  answers.verdicts = VerdictsOf(reservations, placed, replies, ran.in_order);
  return answers;
}

std::vector<absl::StatusOr<Completion>> RedisStore::Complete(absl::Span<const CompleteOp> ops) {
  std::vector<RedisCall> calls;
  for (const CompleteOp& op : ops) calls.push_back(calls_.Complete(op));
  std::vector<absl::StatusOr<Completion>> answers;
  for (const auto& reply : Run(calls)) answers.push_back(RedisCalls::CompletionOf(reply));
  return answers;
}

std::vector<absl::Status> RedisStore::Release(absl::Span<const ReleaseOp> ops) {
  std::vector<RedisCall> calls;
  for (const ReleaseOp& op : ops) calls.push_back(calls_.Release(op));
  std::vector<absl::Status> answers;
  for (const auto& reply : Run(calls)) answers.push_back(RedisCalls::ReleasedOf(reply));
  return answers;
}

std::vector<absl::StatusOr<Extension>> RedisStore::Extend(absl::Span<const ExtendOp> ops) {
  std::vector<RedisCall> calls;
  for (const ExtendOp& op : ops) calls.push_back(calls_.Extend(op));
  std::vector<absl::StatusOr<Extension>> answers;
  for (const auto& reply : Run(calls)) answers.push_back(RedisCalls::ExtensionOf(reply));
  return answers;
}

std::vector<absl::StatusOr<Record>> RedisStore::Get(absl::Span<const GetOp> ops) {
  std::vector<absl::StatusOr<Record>> records;
  std::vector<RedisCall> calls;
  for (const GetOp& op : ops) {
    calls.push_back(calls_.Read(op.id, kRedisInlineReplyBytes, op.confirmed));
  }
  std::vector<RedisCall> again;
  std::vector<std::size_t> again_for;
  BatchWeight weight;
  const auto add = [&](std::size_t i, const absl::StatusOr<RedisReply>& reply) {
    if (!reply.ok()) return absl::StatusOr<Record>(ToRedisCallerStatus(reply.status()));
    absl::StatusOr<RedisRead> read = ReadRedisRecord(ops[i].id, reply->value());
    if (!read.ok()) return absl::StatusOr<Record>(read.status());
    if (weight.IsFull()) return absl::StatusOr<Record>(BatchWeight::NextCall());
    weight.Add(read->reply_bytes);
    if (read->reply_left_out) {
      again.push_back(calls_.Read(ops[i].id, kEveryReply, ops[i].confirmed));
      again_for.push_back(i);
      // Its content may be over, but there is none yet.
      return absl::StatusOr<Record>(BatchWeight::NextCall());
    }
    return DecideGet(ops[i], read->now, std::move(read->stored));
  };
  const Replies replies = Run(calls);
  for (std::size_t i = 0; i < replies.size(); ++i) records.push_back(add(i, replies[i]));
  const Replies large = Run(again);
  for (std::size_t i = 0; i < large.size(); ++i) {
    const std::size_t at = again_for[i];
    if (!large[i].ok()) {
      records[at] = ToRedisCallerStatus(large[i].status());
      continue;
    }
    absl::StatusOr<RedisRead> read = ReadRedisRecord(ops[at].id, large[i]->value());
    if (!read.ok()) {
      records[at] = read.status();
    } else if (!read->reply_left_out) {
      records[at] = DecideGet(ops[at], read->now, std::move(read->stored));
    }
  }
  return records;
}

absl::StatusOr<std::vector<RedisCall>> RedisStore::ProbesOfServers() {
  const auto servers = topology_.Servers();
  if (!servers.ok()) return servers.status();
  // A key on each server: the first that belongs to it.
  std::vector<RedisCall> probes;
  std::vector<RedisAddress> left = *servers;
  constexpr int kMaxProbes = 64 * 1024;
  for (int i = 0; i < kMaxProbes && !left.empty(); ++i) {
    const std::string key = absl::StrCat(options_.prefix, ":probe:", i);
    const absl::StatusOr<RedisAddress> owner = topology_.ServerOf(RedisSlotOf(key));
    if (!owner.ok()) return owner.status();
    const auto at = std::find(left.begin(), left.end(), *owner);
    if (at == left.end()) continue;
    left.erase(at);
    probes.push_back(RedisCalls::Plain({"SET", key, "1", "PX", "60000"}));
    probes.back().confirm = true;
  }
  return probes;
}

absl::Status RedisStore::CheckMarkers(absl::Span<const absl::StatusOr<RedisReply>> markers) {
  bool lost = false;
  bool all = true;
  for (const absl::StatusOr<RedisReply>& marker : markers) {
    all = all && marker.ok();
    lost = lost || (marker.ok() && marker->value().text() != identity_.value());
  }
  if (lost && !lost_.exchange(true)) {
    spdlog::error(
        "redis: records were lost while they were used: a server was emptied. Restore them; or "
        "accept that operations whose records are lost may run again: set not_before in --config "
        "to the time now, run `idempotencyd migrate`, and restart idempotencyd");
  }
  // A server that does not answer may be the one that was emptied.
  if (all) lost_ = lost;
  return lost_ ? MakeError(Reason::kStoreUnavailable, "Redis lost records while it was used")
               : absl::OkStatus();
}

// A master that was replaced accepts writes on, and loses them, with replica-read-only set to no.
absl::Status RedisStore::CheckRole(const absl::StatusOr<RedisReply>& info,
                                   const RedisAddress& server) {
  if (!info.ok() || ParseRedisInfo(info->value().text()).is_master) return absl::OkStatus();
  topology_.NoteReplica(server);
  return MakeError(Reason::kStoreUnavailable, "Redis became a replica while it was used");
}

// Where a server does not answer, its records alone are unavailable: the others serve.
absl::StatusOr<StoreGauges> RedisStore::Inspect() {
  topology_.Refresh();
  absl::StatusOr<std::vector<RedisCall>> calls = ProbesOfServers();
  if (!calls.ok()) return ToRedisCallerStatus(calls.status());
  const std::size_t probes = calls->size();
  const std::string gauges_key = absl::StrCat(options_.prefix, ":gauges");
  calls->push_back(calls_.ReadClock(gauges_key));
  calls->push_back(RedisCalls::Plain({"HMGET", gauges_key, "unknown", "oldest_reserved"}));
  for (const std::string& key : identity_.keys()) {
    calls->push_back(RedisCalls::Plain({"GET", key}));
  }
  // Of a Cluster, a replica refuses writes itself.
  const bool one = options_.mode != RedisOptions::Mode::kCluster;
  if (one) calls->push_back({RedisWire({"INFO", "replication"})});
  Ran ran;
  const Replies replies = RunAnyway(*calls, &ran);
  const auto all = absl::MakeConstSpan(replies);
  if (one) {
    if (absl::Status role = CheckRole(all.back(), ran.answered_by); !role.ok()) return role;
  }
  const absl::Status kept = CheckMarkers(all.subspan(probes + 2, RedisIdentity::kMarkers));
  // Without a connection of the pool, which calls need. After what shows that records were lost: it
  // may take RedisOptions::connect_timeout.
  RedisConnections::TryFailed(options_, topology_, identity_);
  if (auto oldest = pool_.TryAcquireOldest()) (*oldest)->CloseUnused();
  if (!kept.ok()) return kept;
  const auto written = all.first(probes);
  if (std::none_of(written.begin(), written.end(), [](const auto& probe) { return probe.ok(); })) {
    return ToRedisCallerStatus(written.empty() ? absl::UnavailableError("there is no server")
                                               : written.front().status());
  }
  StoreGauges gauges = ReadGauges(all[probes], all[probes + 1]);
  gauges.redis_lost_servers = topology_.lost_servers();
  return gauges;
}

StoreGauges RedisStore::ReadGauges(const absl::StatusOr<RedisReply>& clock,
                                   const absl::StatusOr<RedisReply>& stored) {
  MutexLock lock(mutex_);
  gauges_.read = clock.ok() && stored.ok();
  if (!gauges_.read) return gauges_;
  const RedisValue counted = stored->value();
  // No pass of the sweep has ended.
  if (counted[0].IsNil()) return gauges_;
  const absl::Time now = absl::FromUnixMicros(clock->value()[0].integer());
  gauges_ = StoreGauges{absl::ZeroDuration(), counted[0].integer()};
  if (!counted[1].text().empty()) {
    gauges_.oldest_reserved_age =
        std::max(now - absl::FromUnixMicros(counted[1].integer()), absl::ZeroDuration());
  }
  return gauges_;
}

}  // namespace idempotency::internal
