#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_IDENTITY_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_IDENTITY_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "core/mutex.h"
#include "server/store/redis/connection.h"
#include "server/store/redis/options.h"
#include "server/store/redis/topology.h"

namespace idempotency::internal {

// Markers that show whether the servers still have the data that this process began with: keys,
// spread over the slots, that all have one value. A server that comes back empty, or without a
// part of its slots, lacks some of them; it is not used, since its operations would run again.
// `idempotencyd migrate` writes those that are missing: before the first start, or after a loss
// that is accepted.
//
// Thread-safe.
class RedisIdentity {
 public:
  // One in each of as many ranges of slots, all equally long: a server of a Cluster has one for
  // certain with 255 consecutive slots, as with up to 64 servers that share the slots evenly.
  static constexpr int kMarkers = 128;
  // Before the value's own random part: the layout of records that this build understands.
  static constexpr char kLayout[] = "1:";

  explicit RedisIdentity(const RedisOptions& options);

  // The keys of the markers, in the order of their slots.
  const std::vector<std::string>& keys() const { return keys_; }

  // The value that the markers have.
  void Set(const std::string& value);
  std::string value() const;

  // Checks the markers of a server on a new connection. OK before Set().
  // FAILED_PRECONDITION if one is missing or has another value, UNAVAILABLE if one cannot be read.
  absl::Status Check(RedisConnection& connection, RedisTopology& topology,
                     const RedisOptions& options) const;

  // The command after which the commands before it are confirmed.
  static std::string WaitWire(const RedisOptions& options);

 private:
  const std::vector<std::string> keys_;
  mutable Mutex mutex_;
  std::string value_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_IDENTITY_H_
