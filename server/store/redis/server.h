#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_SERVER_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_SERVER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "server/store/redis/options.h"

namespace idempotency::internal {

// A server's description of itself (INFO). A value type.
struct RedisServer {
  // The version of Redis, or the one that Valkey is compatible with: 7.2 is {7, 2}.
  int major = 0;
  int minor = 0;
  bool is_master = false;
  bool is_cluster = false;
  bool loading = false;
  bool appends = false;
  // Another one after each start of the server.
  std::string run_id;
  // "noeviction", ...
  std::string maxmemory_policy;
};

RedisServer ParseRedisInfo(std::string_view info);

// Whether a server may hold records.
//   UNAVAILABLE          Not now: it is a replica, or reads its data.
//   FAILED_PRECONDITION  Its version is too old, or it may drop records (maxmemory-policy), or it
//                        is no node of a Cluster, or is one, unlike the URL.
absl::Status CheckRedisServer(const RedisServer& server, const RedisOptions& options);

// Settings of a server; empty where it does not report them (CONFIG GET).
struct RedisFsync {
  std::string appendfsync;
  // no-appendfsync-on-rewrite
  std::string none_on_rewrite;
};

// The acknowledged data that a crash of the server loses, for the log at the start; empty if none.
std::vector<std::string> RedisDurabilityWarnings(const RedisServer& server,
                                                 const RedisFsync& fsync);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_SERVER_H_
