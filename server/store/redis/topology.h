#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_TOPOLOGY_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_TOPOLOGY_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "core/backoff.h"
#include "core/log_throttle.h"
#include "core/mutex.h"
#include "server/store/redis/options.h"
#include "server/store/redis/slots.h"

namespace idempotency::internal {

// Which server accepts the writes of a slot: the only one, the master that the Sentinels name, or
// the master of the slot in a Cluster. One caller at a time queries the servers, at most every
// kMinRefresh; RedisOptions::connect_timeout bounds each query.
//
// Thread-safe.
class RedisTopology {
 public:
  static constexpr absl::Duration kMinRefresh = absl::Milliseconds(100);
  // After an attempt to connect in vain, as many times as long as it took passes before a call
  // makes the next one: a server that does not answer takes little of the time of calls for the
  // others.
  static constexpr int kPausePerAttempt = 10;

  explicit RedisTopology(const RedisOptions& options) : options_(options) {}

  // UNAVAILABLE if it is not known.
  absl::StatusOr<RedisAddress> ServerOf(int slot);
  // All that own a slot, without duplicates.
  absl::StatusOr<std::vector<RedisAddress>> Servers();

  // The answer of a server: another one owns the slot.
  void Moved(int slot, const RedisAddress& to);
  // A server could not be reached, or does not accept or confirm writes: the next call queries them
  // again.
  void Suspect();
  // Queries all Sentinels now; no effect without them. Calls use what is known meanwhile. A master
  // that was replaced may go on to accept writes, and nothing else shows that.
  void Refresh();

  // Whether a connection to it may be tried. Once it failed: not at once, and by one caller at a
  // time, which then notes the result.
  bool MayTry(const RedisAddress& address);
  // An attempt to connect to it failed, which took so long.
  void NoteUnreached(const RedisAddress& address, const absl::Status& failure, absl::Duration took);
  // A connection to it failed.
  void NoteFailed(const RedisAddress& address, const absl::Status& failure);
  void NoteReached(const RedisAddress& address);
  // It is a replica now, whatever its connections accept.
  void NoteReplica(const RedisAddress& address);
  // How often a server was found to be a replica: a connection from before may be to that one, also
  // if another server has its address by now.
  std::int64_t demotions() const { return demotions_.load(); }
  // It answers, and lacks data that it had, until it is reached with them. Not a reason to use no
  // other server: the address of one that is gone may lead to another installation's.
  void NoteLost(const RedisAddress& address, const absl::Status& failure);
  // Such servers that own a slot.
  std::int64_t lost_servers();
  // False if this run of the server was noted before: whether its settings are to be looked at.
  bool NoteRun(const RedisAddress& address, const std::string& run);
  // One of `servers` that failed and was not reached since: the one after that of the last call, so
  // that all of them have their turn.
  std::optional<RedisAddress> NextFailed(const std::vector<RedisAddress>& servers);
  // A line in the log, at most one a second.
  void Log(const RedisAddress& server, std::string_view what);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Indices into `servers`; kNobody where a slot has no owner.
  static constexpr std::uint16_t kNobody = 0xFFFF;
  struct Map {
    std::vector<RedisAddress> servers;
    std::array<std::uint16_t, kRedisSlots> owners{};
    // With Sentinels: of the failover that made the server the master. The one of the next is
    // higher.
    std::int64_t epoch = 0;
  };
  // How many of the Sentinels are queried: those up to the first that is not behind, and none that
  // is paused; or each of them, and the paused ones if no other one answers.
  enum class Sentinels { kFirst, kAll };
  struct Failure {
    Failure(absl::Duration min_backoff, absl::Duration max_backoff)
        : backoff(min_backoff, max_backoff) {}

    Backoff backoff;
    TimePoint next_try;
  };

  Failure& FailureOf(const RedisAddress& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Log(const std::string& what);
  void LogUnknownServers(const absl::Status& failure);

  // The answer to a query that began with `before`, unless another query has seen a later failover
  // meanwhile.
  void Adopt(const std::shared_ptr<const Map>& before, std::shared_ptr<const Map> queried)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There is a map, and no reason to query again.
  bool IsFresh() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The current map; queried if there is none, or it is suspect.
  absl::StatusOr<std::shared_ptr<const Map>> Current();
  // The error of the query, after which the map is as before.
  absl::Status QueryUnlessFresh();
  absl::StatusOr<std::shared_ptr<const Map>> Query(const std::vector<RedisAddress>& known,
                                                   std::int64_t known_epoch, Sentinels sentinels);
  // The master of the highest epoch. A Sentinel that is cut off from the others goes on to name the
  // former one: one of an epoch before the known one counts only if most of the Sentinels answer.
  absl::StatusOr<Map> QuerySentinels(std::int64_t known_epoch, Sentinels sentinels);
  // It did not answer a short time ago: kPausePerAttempt.
  bool IsPaused(const RedisAddress& sentinel);
  void NoteSentinel(const RedisAddress& sentinel, bool answered, absl::Duration took);
  absl::StatusOr<Map> QuerySentinel(const RedisAddress& sentinel) const;
  absl::StatusOr<Map> QueryNode(const RedisAddress& node) const;
  static Map OfOne(const RedisAddress& server);

  const RedisOptions options_;
  LogThrottle log_;
  // Held while one caller queries; before mutex_.
  Mutex querying_;
  mutable Mutex mutex_ ABSL_ACQUIRED_AFTER(querying_);
  std::shared_ptr<const Map> map_ ABSL_GUARDED_BY(mutex_);
  bool suspect_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<TimePoint> queried_at_ ABSL_GUARDED_BY(mutex_);
  std::map<RedisAddress, Failure> failures_ ABSL_GUARDED_BY(mutex_);
  // The last answer of NextFailed().
  std::optional<RedisAddress> tried_ ABSL_GUARDED_BY(mutex_);
  std::atomic<std::int64_t> demotions_{0};
  std::set<RedisAddress> lost_ ABSL_GUARDED_BY(mutex_);
  std::map<RedisAddress, std::string> runs_ ABSL_GUARDED_BY(mutex_);
  // Sentinels that did not answer, until when.
  std::map<RedisAddress, TimePoint> paused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_TOPOLOGY_H_
