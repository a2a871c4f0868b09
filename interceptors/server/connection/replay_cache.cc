#include "interceptors/server/connection/replay_cache.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"

#include "core/mutex.h"
#include "core/wire_time.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/reply.h"
#include "interceptors/server/connection/answer_memory.h"

namespace idempotency::internal {
namespace {

using Moment = ReplayCache::Moment;

// Enough that the threads of one server rarely contend for a lock. A shard has at least 4 MiB:
// larger replies would not fit in less.
constexpr std::size_t kMaxShards = 16;
constexpr std::size_t kMinShardBytes = 4 * 1024 * 1024;
// One entry may take a quarter of its shard: a larger one would evict nearly all others.
constexpr std::size_t kEntryShare = 4;
// Four fifths of a shard are for answers that were given again.
constexpr std::size_t kProtectedNumerator = 4;
constexpr std::size_t kProtectedDenominator = 5;

struct Entry {
  ReservedRequest request;
  ReplayCache::Answer answer;
  std::size_t hash;
  Moment sent_at;
  Moment end;
  std::size_t bytes;
  bool is_protected = false;
};

using Entries = std::list<Entry>;

bool IsOver(const Moment& end, const Moment& now) {
  return now.monotonic >= end.monotonic || now.wall >= end.wall;
}

// The memory of an entry: the list's node, about two slots of the set, the block of the shared
// answer, and the data that they point to. The allocator's overhead is not counted.
std::size_t WeightOf(const ReservedRequest& request, const v1::ReserveResponse& answer) {
  constexpr std::size_t kNode = sizeof(Entry) + 2 * sizeof(void*);
  constexpr std::size_t kSlots = 2 * (sizeof(Entries::iterator) + 1);
  constexpr std::size_t kCounts = 2 * sizeof(void*);
  return kNode + kSlots + kCounts + MemoryOf(answer) + request.allocated_bytes();
}

}  // namespace

// A record key that is looked up.
struct ReplayCache::Key {
  const v1::RecordKey& record_key;
  std::size_t hash;
};

// A part of the cache, with its own lock.
class ReplayCache::Shard {
 public:
  explicit Shard(std::size_t capacity)
      : capacity_(capacity),
        protected_capacity_(capacity / kProtectedDenominator * kProtectedNumerator) {}

  Answer FindReplay(const Key& key, const Fingerprints& fingerprints, const Moment& now) {
    Entries dropped;
    MutexLock lock(mutex_);
    const Entries::iterator* const found = FindAlive(key, now, dropped);
    if (found == nullptr || !(*found)->request.HasFingerprints(fingerprints)) {
      ++counters_.misses;
      return nullptr;
    }
    ++counters_.hits;
    Protect(*found);
    return (*found)->answer;
  }

  // `added` has one entry.
  void Keep(Entries added, const Moment& now) {
    // Dropped entries are destroyed after the lock is released.
    Entries dropped;
    MutexLock lock(mutex_);
    const auto held = by_key_.find(added.begin());
    if (held != by_key_.end()) {
      if ((*held)->sent_at.monotonic > added.front().sent_at.monotonic) return;
      Remove(*held, dropped);
    }
    DropWhatIsOver(now, dropped);
    MakeRoom(added.front().bytes, dropped);
    bytes_ += added.front().bytes;
    probation_.splice(probation_.begin(), added);
    by_key_.insert(probation_.begin());
  }

  void Drop(const Key& key) {
    Entries dropped;
    MutexLock lock(mutex_);
    const auto held = by_key_.find(key);
    if (held != by_key_.end()) Remove(*held, dropped);
  }

  void AddTo(ReplayCacheCounters& sum) const {
    MutexLock lock(mutex_);
    sum.hits += counters_.hits;
    sum.misses += counters_.misses;
    sum.evictions += counters_.evictions;
    sum.entries += by_key_.size();
    sum.bytes += bytes_;
  }

 private:
  struct EntryHash {
    using is_transparent = void;
    std::size_t operator()(const Key& key) const { return key.hash; }
    std::size_t operator()(Entries::iterator entry) const { return entry->hash; }
  };
  struct EntryEq {
    using is_transparent = void;
    bool operator()(const Key& a, Entries::iterator b) const {
      return a.hash == b->hash && b->request.HasKey(a.record_key);
    }
    bool operator()(Entries::iterator a, const Key& b) const { return (*this)(b, a); }
    bool operator()(Entries::iterator a, Entries::iterator b) const {
      return a->hash == b->hash && a->request.HasSameKey(b->request);
    }
  };

  // nullptr if there is none; an expired one is moved to `dropped`.
  const Entries::iterator* FindAlive(const Key& key, const Moment& now, Entries& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto held = by_key_.find(key);
    if (held == by_key_.end()) return nullptr;
    if (!IsOver((*held)->end, now)) return &*held;
    Remove(*held, dropped);
    return nullptr;
  }

  void Protect(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (entry->is_protected) {
      protected_.splice(protected_.begin(), protected_, entry);
      return;
    }
    entry->is_protected = true;
    protected_bytes_ += entry->bytes;
    protected_.splice(protected_.begin(), probation_, entry);
    while (protected_bytes_ > protected_capacity_) {
      const auto last = std::prev(protected_.end());
      last->is_protected = false;
      protected_bytes_ -= last->bytes;
      probation_.splice(probation_.begin(), protected_, last);
    }
  }

  // Drops from the ends of both lists, whose entries are the oldest except for those given
  // again since. So a cache in use contains few expired entries.
  void DropWhatIsOver(const Moment& now, Entries& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (Entries* const list : {&probation_, &protected_}) {
      while (!list->empty() && IsOver(list->back().end, now)) {
        Remove(std::prev(list->end()), dropped);
      }
    }
  }

  void MakeRoom(std::size_t bytes, Entries& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (bytes_ + bytes > capacity_) {
      Entries& list = probation_.empty() ? protected_ : probation_;
      ++counters_.evictions;
      Remove(std::prev(list.end()), dropped);
    }
  }

  void Remove(Entries::iterator entry, Entries& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    by_key_.erase(entry);
    bytes_ -= entry->bytes;
    if (entry->is_protected) protected_bytes_ -= entry->bytes;
    dropped.splice(dropped.begin(), entry->is_protected ? protected_ : probation_, entry);
  }

  const std::size_t capacity_;
  const std::size_t protected_capacity_;

  mutable Mutex mutex_;
  // Newest first: by the time of arrival, and by the time when they were last given.
  Entries probation_ ABSL_GUARDED_BY(mutex_);
  Entries protected_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<Entries::iterator, EntryHash, EntryEq> by_key_ ABSL_GUARDED_BY(mutex_);
  std::size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t protected_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // `entries` and `bytes` are counted elsewhere.
  ReplayCacheCounters counters_ ABSL_GUARDED_BY(mutex_);
};

ReplayCache::ReplayCache(const ReplayCacheOptions& options, const Clock& clock,
                         std::size_t hash_mask)
    : clock_(clock), max_age_(options.max_age), hash_mask_(hash_mask) {
  const std::size_t shards =
      std::clamp<std::size_t>(options.capacity_bytes / kMinShardBytes, 1, kMaxShards);
  const std::size_t shard_bytes = options.capacity_bytes / shards;
  max_entry_bytes_ = shard_bytes / kEntryShare;
  for (std::size_t i = 0; i < shards; ++i) shards_.push_back(std::make_unique<Shard>(shard_bytes));
}

ReplayCache::~ReplayCache() = default;

ReplayCache::Shard& ReplayCache::ShardOf(std::size_t hash) const {
  // Hashed once more: the set uses the bits of `hash` itself.
  return *shards_[absl::HashOf(hash) % shards_.size()];
}

Moment ReplayCache::EndOf(const v1::ReserveResponse& replay, Moment sent_at) const {
  const absl::Time expires_at = FromWire(replay.replay().expires_at());
  const absl::Duration life = expires_at - FromWire(replay.replay().completed_at());
  return {After(sent_at.monotonic, std::min(max_age_, life)),
          std::min(sent_at.wall + max_age_, expires_at)};
}

ReplayCache::Key ReplayCache::KeyOf(const v1::RecordKey& key) const {
  return {key, ReservedRequest::HashOf(key) & hash_mask_};
}

ReplayCache::Answer ReplayCache::FindReplay(const v1::RecordKey& record_key,
                                            const Fingerprints& fingerprints) {
  const Key key = KeyOf(record_key);
  return ShardOf(key.hash).FindReplay(key, fingerprints, Now());
}

void ReplayCache::KeepVerdict(const v1::ReserveRequest& request, Answer verdict, Moment sent_at) {
  switch (verdict->verdict_case()) {
    case v1::ReserveResponse::kReplay:
      return Keep(ReservedRequest(request.record_key(), request.fingerprints()), std::move(verdict),
                  sent_at);
    case v1::ReserveResponse::kMismatch:
      return;
    default:
      return Drop(request.record_key());
  }
}

void ReplayCache::KeepReply(const v1::ReserveRequest& request, const v1::ReserveResponse& grant,
                            v1::CompleteRequest& completed,
                            const v1::CompleteResponse& acknowledged, Moment sent_at) {
  const std::size_t reply_bytes = ReplyBytes(completed.reply());
  // The service stores a reply over kMaxReplyBytes without its content.
  if (reply_bytes > limits::kMaxReplyBytes || reply_bytes > max_entry_bytes_) return;
  auto answer = std::make_shared<v1::ReserveResponse>();
  answer->set_record_id(grant.record_id());
  v1::Replay& replay = *answer->mutable_replay();
  *replay.mutable_reply() = std::move(*completed.mutable_reply());
  *replay.mutable_completed_at() = acknowledged.completed_at();
  *replay.mutable_expires_at() = acknowledged.expires_at();
  replay.set_attempt(grant.reserved().attempt());
  *replay.mutable_labels() = grant.reserved().labels();
  Keep(ReservedRequest(request.record_key(), request.fingerprints()), std::move(answer), sent_at);
}

void ReplayCache::Keep(ReservedRequest request, Answer replay, Moment sent_at) {
  const Moment now = Now();
  const Moment end = EndOf(*replay, sent_at);
  const std::size_t bytes = WeightOf(request, *replay);
  if (bytes > max_entry_bytes_ || IsOver(end, now)) return;
  const std::size_t hash = request.hash() & hash_mask_;
  Entries added;
  added.push_back({std::move(request), std::move(replay), hash, sent_at, end, bytes});
  ShardOf(hash).Keep(std::move(added), now);
}

void ReplayCache::Drop(const v1::RecordKey& record_key) {
  const Key key = KeyOf(record_key);
  ShardOf(key.hash).Drop(key);
}

ReplayCacheCounters ReplayCache::counters() const {
  ReplayCacheCounters sum;
  for (const auto& shard : shards_) shard->AddTo(sum);
  return sum;
}

}  // namespace idempotency::internal
