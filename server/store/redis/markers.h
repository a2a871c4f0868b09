#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_MARKERS_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_MARKERS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/store/redis/connections.h"
#include "server/store/redis/identity.h"
#include "server/store/redis/options.h"

namespace idempotency::internal {

// What the markers (RedisIdentity) show of the data. A value type.
//
// They are on several servers, so they are not written at once. The first one begins with
// kPreparing until all others are written: a Redis that is being prepared, or whose preparation
// ended early, is not one that lost records.
struct RedisMarkers {
  // Begins the value of the first marker while the others are written.
  static constexpr char kPreparing[] = "preparing:";

  struct Faults {
    // Also the first one while it begins with kPreparing.
    int missing = 0;
    // Have another value than most: of a server that was restored from an older backup.
    int differing = 0;
    // They have not all been written yet: no process has served, so no record is lost.
    bool preparing = false;
    int count() const { return missing + differing; }
  };

  // The value of most markers, or of those that are being written; empty if all of them are
  // missing.
  std::string identity;
  Faults faults;
  // Of a server that could not be read; the markers of such servers count as nothing.
  absl::Status unread;
};

// In the order of RedisIdentity::keys(); empty where there is no marker.
using RedisMarkerValues = std::vector<absl::StatusOr<std::string>>;

// `read` reads all markers, of several servers not at the same moment: it may find the first one as
// it is after a preparation, and others as they were before. So faults count only if a second
// reading has them too.
RedisMarkers LookAtRedisMarkers(absl::FunctionRef<RedisMarkerValues()> read);
RedisMarkers ReadRedisMarkers(RedisConnections& connections, const RedisIdentity& identity);

// Writes them. Returns the identity that they have then: one for all processes that write at the
// same time.
absl::StatusOr<std::string> WriteRedisMarkers(RedisConnections& connections,
                                              const RedisIdentity& identity,
                                              const RedisMarkers& found);

// Why a Redis with `faults` is not served.
//   UNAVAILABLE          It is being prepared: try again.
//   FAILED_PRECONDITION  It is new, or lost records.
absl::Status RefusedForMarkers(const RedisMarkers::Faults& faults, const RedisOptions& options);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_MARKERS_H_
