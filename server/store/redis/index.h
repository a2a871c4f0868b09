#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_INDEX_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_INDEX_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/redis/calls.h"
#include "server/store/redis/connections.h"
#include "server/store/redis/options.h"

namespace idempotency::internal {

// The ids of all records, in order: sorted sets apart from the records, on keys of their own. An
// entry is a hint: the record may be gone, or have another key, and is read before anything is
// decided. Each reservation writes its entry, so a missing one (lost in a failover) returns with
// the next use of its key. Until then lists and sweeps do not see the record; verdicts do.
//
// Immutable.
class RedisIndex {
 public:
  // Spread over the slots of a Cluster.
  static constexpr int kShards = 16;
  // Members that one Read examines of each shard, and how often, where others are filtered out.
  static constexpr int kMaxChunk = 512;
  static constexpr int kMaxChunks = 8;

  // The entries of a namespace, or a scope of it; everything if empty. By hashes: it may let
  // others pass.
  struct Filter {
    std::optional<std::string> name_space;
    std::optional<std::string> scope;
  };
  struct Entry {
    RecordId id;
    // More than one only where keys collide.
    std::vector<std::string> members;
  };
  struct Page {
    std::vector<Entry> entries;
    // Where to continue; nullopt at the end.
    std::optional<RecordId> next;
  };

  explicit RedisIndex(const RedisOptions& options) : options_(options) {}

  // Adds an entry; does nothing if it is there.
  RedisCall Add(const RecordKey& key, const RecordId& id) const;
  RedisCall AddMember(const std::string& member) const;
  RedisCall Remove(const std::string& member) const;

  // At most `limit` entries behind `after`, up to `until`.
  absl::StatusOr<Page> Read(RedisConnections& connections, const std::optional<RecordId>& after,
                            const std::optional<RecordId>& until, const Filter& filter,
                            int limit) const;

 private:
  std::string KeyOf(std::string_view member) const;

  const RedisOptions& options_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_INDEX_H_
