#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_REPLAY_CACHE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_REPLAY_CACHE_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/time/time.h"

#include "core/clock.h"
#include "grpc_idempotency/server_guard/replay_cache_counters.h"
#include "grpc_idempotency/server_guard/replay_cache_options.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/connection/reserved_request.h"

namespace idempotency::internal {

// The store's last answers about completed operations, by record key.
//
// Which requests get a cached answer. The verdict on a completed record depends on the record,
// which does not change, and on the fingerprints of the request. So an answer is valid for a
// request with the same four parts of the key and the same fingerprints, all versions of them,
// and for no other: the store decides whether a different request is a mismatch.
//
// How long. The record existed when the store answered, and the store answered after the
// request was sent. So, counted from before the request was sent, an answer is valid only while
// - no more than max_age has passed, by the monotonic and by the wall clock: the monotonic
//   clock stops while a machine is suspended, and the wall clock can be set back;
// - no more than the record's life from completion to expiry has passed, both by the store's
//   clock;
// - the guard's wall clock has not reached expires_at.
// An answer is therefore never given later than max_age after the request, for any behaviour of
// the clocks, and outlives its record by no more than the guard's clock is behind the store's,
// max_age at most.
//
// Eviction. A segmented LRU: an answer starts on probation and becomes protected when it is
// given again. Most operations are never retried; in a plain LRU each of them would evict a
// reply that a client is retrying.
//
// The cache is filled from the guard's own traffic: from a `replay` of the store, and from a reply
// whose recording the store has acknowledged.
//
// Thread-safe. A lookup copies nothing and allocates nothing.
class ReplayCache {
 public:
  using Fingerprints = ReservedRequest::Fingerprints;

  // The time of a request, by both clocks, before it was sent.
  struct Moment {
    std::chrono::steady_clock::time_point monotonic;
    absl::Time wall;
  };
  // The store's answer to a request. The cache shares it with the calls that it answers.
  using Answer = std::shared_ptr<const v1::ReserveResponse>;

  // `options` with a capacity that is not 0; `clock` outlives the cache. Keys are first
  // compared by the bits of their hashes in `hash_mask`, then by their parts: a test can make
  // all of them collide.
  ReplayCache(const ReplayCacheOptions& options, const Clock& clock,
              std::size_t hash_mask = ~std::size_t{0});
  ~ReplayCache();
  ReplayCache(const ReplayCache&) = delete;
  ReplayCache& operator=(const ReplayCache&) = delete;

  Moment Now() const { return {clock_.Monotonic(), clock_.Now()}; }
  // Without a cache the time is not read.
  static Moment NowOf(const ReplayCache* cache) {
    return cache == nullptr ? Moment() : cache->Now();
  }

  // The replay that the store would answer; nullptr if the store must be queried.
  Answer FindReplay(const v1::RecordKey& key, const Fingerprints& fingerprints);

  // The store has answered `request`, which was sent at `sent_at`. A replay is cached; any other
  // verdict but a mismatch, which concerns another request, drops the record's replay.
  void KeepVerdict(const v1::ReserveRequest& request, Answer verdict, Moment sent_at);
  // The store has acknowledged `completed`, which was sent at `sent_at`, for the reservation that
  // `grant` granted to `request`. Caches the replay that the store would answer, and takes the
  // reply out of `completed` for it.
  void KeepReply(const v1::ReserveRequest& request, const v1::ReserveResponse& grant,
                 v1::CompleteRequest& completed, const v1::CompleteResponse& acknowledged,
                 Moment sent_at);

  // Stores `replay`, the answer to `request`, in place of the cached one for its key, unless that
  // one was requested later, or the new one is over max_entry_bytes().
  void Keep(ReservedRequest request, Answer replay, Moment sent_at);
  void Drop(const v1::RecordKey& key);

  // The maximum size of one entry.
  std::size_t max_entry_bytes() const { return max_entry_bytes_; }
  ReplayCacheCounters counters() const;

 private:
  class Shard;
  struct Key;

  // The time from which an answer, requested at `sent_at`, is no longer given.
  Moment EndOf(const v1::ReserveResponse& replay, Moment sent_at) const;
  Key KeyOf(const v1::RecordKey& key) const;
  Shard& ShardOf(std::size_t hash) const;

  const Clock& clock_;
  const absl::Duration max_age_;
  const std::size_t hash_mask_;
  std::size_t max_entry_bytes_ = 0;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_REPLAY_CACHE_H_
