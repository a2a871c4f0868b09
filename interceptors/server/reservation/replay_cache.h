#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_REPLAY_CACHE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_REPLAY_CACHE_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/repeated_field.h"

#include "core/clock.h"
#include "grpc_idempotency/server_guard/replay_cache_counters.h"
#include "grpc_idempotency/server_guard/replay_cache_options.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// The store's last answers about completed operations, by record key.
//
// When an answer is given again. The verdict on a completed record depends on
// the record, which does not change, and on the fingerprints of the request.
// So an answer is good for a request with the same four parts of the key and
// the same fingerprints, all versions of them, and for no other: whether a
// request that differs is a mismatch is left to the store.
//
// How long. The record was alive when the store answered, and the store
// answered after it was asked. So counted from before the request was sent,
//   - max_age passes at most, by the monotonic and by the wall clock, whichever
//     is first: the monotonic clock stands still while a machine is suspended,
//     the wall clock can be set back;
//   - the record's life from completion to expiry, both by the store's clock,
//     passes at most;
//   - expires_at, read from the guard's wall clock, is not passed.
// An answer is therefore never given later than max_age after the request, no
// matter what the clocks do, and outlives its record by no more than the guard's
// clock is behind the store's, max_age at most.
//
// What makes room. A segmented LRU: an answer begins on probation and becomes
// protected when it is given again. Most operations are never retried; in a
// plain LRU each of them would push a reply out that somebody is retrying.
//
// Grants are kept too, with max_age and in the same room, so that the reply
// that completes one can be kept with the fingerprints of its request.
//
// Thread-safe. Finding an answer copies nothing and allocates nothing.
class ReplayCache {
 public:
  using Fingerprints = google::protobuf::RepeatedPtrField<v1::Fingerprint>;

  // What was asked, and when: by both clocks, before the request was sent.
  struct Moment {
    std::chrono::steady_clock::time_point monotonic;
    absl::Time wall;
  };
  // A request and the store's answer to it: `replay` or `reserved`.
  struct Answer {
    Fingerprints fingerprints;
    v1::ReserveResponse response;
  };

  // `options` with a capacity that is not 0; `clock` outlives the cache. Only
  // the bits of `hash_mask` tell keys apart before their parts do: a test lets
  // all of them collide.
  ReplayCache(const ReplayCacheOptions& options, const Clock& clock,
              std::size_t hash_mask = ~std::size_t{0});
  ~ReplayCache();
  ReplayCache(const ReplayCache&) = delete;
  ReplayCache& operator=(const ReplayCache&) = delete;

  Moment Now() const { return {clock_.Monotonic(), clock_.Now()}; }

  // The replay that the store would answer; nullptr if it must be asked.
  std::shared_ptr<const Answer> FindReplay(const v1::RecordKey& key,
                                           const Fingerprints& fingerprints);
  // The grant that `reservation_token` was minted for; nullptr if it is not
  // known (any more).
  std::shared_ptr<const Answer> FindGrant(const v1::RecordKey& key,
                                          std::string_view reservation_token);

  // Keeps `answer` in place of what is held for the key, unless that was asked
  // for later, or the answer is over max_entry_bytes().
  void Keep(const v1::RecordKey& key, Answer answer, Moment asked);
  // The store has said something else: a replay that is held is forgotten.
  void DropReplay(const v1::RecordKey& key);

  // What one entry may weigh.
  std::size_t max_entry_bytes() const { return max_entry_bytes_; }
  ReplayCacheCounters counters() const;

 private:
  class Shard;

  // When an answer, asked for at `asked`, is no longer given.
  Moment EndOf(const v1::ReserveResponse& response, Moment asked) const;
  Shard& ShardOf(std::size_t hash) const;

  const Clock& clock_;
  const absl::Duration max_age_;
  const std::size_t hash_mask_;
  std::size_t max_entry_bytes_ = 0;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_RESERVATION_REPLAY_CACHE_H_
