#include "interceptors/server/connection/replay_cache.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"

#include "core/mutex.h"
#include "core/wire_time.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/record_key.h"

namespace idempotency::internal {
namespace {

using Fingerprints = ReplayCache::Fingerprints;
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

// The four parts of a key, not owned.
using Parts = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>;

Parts PartsOf(const v1::RecordKey& key) {
  return {key.key(), key.operation(), key.scope(), key.namespace_()};
}
Parts PartsOf(const RecordKey& key) { return {key.key, key.operation, key.scope, key.name_space}; }

struct KeyView {
  Parts parts;
  std::size_t hash = 0;
};

template <typename Key>
KeyView ViewOf(const Key& key, std::size_t hash_mask) {
  const Parts parts = PartsOf(key);
  return {parts, absl::HashOf(parts) & hash_mask};
}

struct Entry {
  RecordKey key;
  std::size_t hash = 0;
  std::shared_ptr<const ReplayCache::Answer> answer;
  Moment asked;
  Moment end;
  std::size_t bytes = 0;
  bool is_protected = false;
};

using Entries = std::list<Entry>;

struct EntryHash {
  using is_transparent = void;
  std::size_t operator()(const KeyView& key) const { return key.hash; }
  std::size_t operator()(Entries::iterator entry) const { return entry->hash; }
};

struct EntryEq {
  using is_transparent = void;
  bool operator()(const KeyView& a, Entries::iterator b) const {
    return a.hash == b->hash && a.parts == PartsOf(b->key);
  }
  bool operator()(Entries::iterator a, const KeyView& b) const { return (*this)(b, a); }
  bool operator()(Entries::iterator a, Entries::iterator b) const { return a->key == b->key; }
};

bool IsOver(const Moment& end, const Moment& now) {
  return now.monotonic >= end.monotonic || now.wall >= end.wall;
}

bool Same(const Fingerprints& a, const Fingerprints& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.version() == y.version() && x.digest() == y.digest();
  });
}

// The memory of an entry: the list's node, about two slots of the set, the block of the shared
// answer, and the data that these point to. The allocator's overhead is not counted.
std::size_t WeightOf(const RecordKey& key, const ReplayCache::Answer& answer) {
  constexpr std::size_t kNode = sizeof(Entry) + 2 * sizeof(void*);
  constexpr std::size_t kSlots = 2 * (sizeof(Entries::iterator) + 1);
  constexpr std::size_t kBlock = sizeof(answer) + 2 * sizeof(void*);
  return kNode + kSlots + kBlock + key.name_space.capacity() + key.scope.capacity() +
         key.operation.capacity() + key.key.capacity() +
         answer.fingerprints.SpaceUsedExcludingSelfLong() + answer.response.SpaceUsedLong() -
         sizeof(answer.response);
}

}  // namespace

// A part of the cache, with its own lock.
class ReplayCache::Shard {
 public:
  explicit Shard(std::size_t capacity)
      : capacity_(capacity),
        protected_capacity_(capacity / kProtectedDenominator * kProtectedNumerator) {}

  std::shared_ptr<const Answer> FindReplay(const KeyView& key, const Fingerprints& fingerprints,
                                           const Moment& now) {
    Entries dropped;
    MutexLock lock(mutex_);
    const Entries::iterator* const found = FindAlive(key, now, dropped);
    if (found == nullptr || !(*found)->answer->response.has_replay() ||
        !Same((*found)->answer->fingerprints, fingerprints)) {
      ++counters_.misses;
      return nullptr;
    }
    ++counters_.hits;
    Protect(*found);
    return (*found)->answer;
  }

  std::shared_ptr<const Answer> FindGrant(const KeyView& key, std::string_view reservation_token,
                                          const Moment& now) {
    Entries dropped;
    MutexLock lock(mutex_);
    const Entries::iterator* const found = FindAlive(key, now, dropped);
    if (found == nullptr) return nullptr;
    const v1::ReserveResponse& response = (*found)->answer->response;
    const bool is_grant =
        response.has_reserved() && response.reserved().reservation_token() == reservation_token;
    return is_grant ? (*found)->answer : nullptr;
  }

  // `added` has one entry.
  void Keep(Entries added, const Moment& now) {
    // Dropped entries are destroyed after the lock is released.
    Entries dropped;
    MutexLock lock(mutex_);
    const auto held = by_key_.find(KeyView{PartsOf(added.front().key), added.front().hash});
    if (held != by_key_.end()) {
      if ((*held)->asked.monotonic > added.front().asked.monotonic) return;
      Remove(*held, dropped);
    }
    DropWhatIsOver(now, dropped);
    MakeRoom(added.front().bytes, dropped);
    bytes_ += added.front().bytes;
    probation_.splice(probation_.begin(), added);
    by_key_.insert(probation_.begin());
  }

  void DropReplay(const KeyView& key) {
    Entries dropped;
    MutexLock lock(mutex_);
    const auto held = by_key_.find(key);
    if (held != by_key_.end() && (*held)->answer->response.has_replay()) Remove(*held, dropped);
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
  // nullptr if there is none; an expired one is moved to `dropped`.
  const Entries::iterator* FindAlive(const KeyView& key, const Moment& now, Entries& dropped)
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

Moment ReplayCache::EndOf(const v1::ReserveResponse& response, Moment asked) const {
  absl::Duration life = max_age_;
  absl::Time wall = asked.wall + max_age_;
  if (response.has_replay()) {
    const absl::Time expires_at = FromWire(response.replay().expires_at());
    life = std::min(life, expires_at - FromWire(response.replay().completed_at()));
    wall = std::min(wall, expires_at);
  }
  return {After(asked.monotonic, life), wall};
}

std::shared_ptr<const ReplayCache::Answer> ReplayCache::FindReplay(
    const v1::RecordKey& key, const Fingerprints& fingerprints) {
  const KeyView view = ViewOf(key, hash_mask_);
  return ShardOf(view.hash).FindReplay(view, fingerprints, Now());
}

std::shared_ptr<const ReplayCache::Answer> ReplayCache::FindGrant(
    const v1::RecordKey& key, std::string_view reservation_token) {
  const KeyView view = ViewOf(key, hash_mask_);
  return ShardOf(view.hash).FindGrant(view, reservation_token, Now());
}

void ReplayCache::Keep(const v1::RecordKey& key, Answer answer, Moment asked) {
  Entries added(1);
  Entry& entry = added.front();
  // Part by part, normalised or not: it is compared with the next request's parts.
  entry.key = {key.namespace_(), key.scope(), key.operation(), key.key()};
  entry.hash = ViewOf(entry.key, hash_mask_).hash;
  entry.asked = asked;
  entry.end = EndOf(answer.response, asked);
  entry.bytes = WeightOf(entry.key, answer);
  const Moment now = Now();
  if (entry.bytes > max_entry_bytes_ || IsOver(entry.end, now)) return;
  entry.answer = std::make_shared<const Answer>(std::move(answer));
  Shard& shard = ShardOf(entry.hash);
  shard.Keep(std::move(added), now);
}

void ReplayCache::DropReplay(const v1::RecordKey& key) {
  const KeyView view = ViewOf(key, hash_mask_);
  ShardOf(view.hash).DropReplay(view);
}

ReplayCacheCounters ReplayCache::counters() const {
  ReplayCacheCounters sum;
  for (const auto& shard : shards_) shard->AddTo(sum);
  return sum;
}

}  // namespace idempotency::internal
