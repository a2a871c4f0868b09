// The limits of a store and of one call of it. Those that callers meet are in
// grpc_idempotency/limits.h.
#ifndef IDEMPOTENCY_SERVER_STORE_LIMITS_H_
#define IDEMPOTENCY_SERVER_STORE_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace idempotency::limits {

// A batch of 256 is where storage throughput stops growing.
inline constexpr std::size_t kMaxBatch = 256;
// The replies that one store call loads into memory, exceeded by at most one reply: without a
// bound a batch of replays would take 2 GiB. Every connection has such a call, and each reply
// exists about five times until it is sent: in the database's text, in bytes, in a message, in
// a frame.
inline constexpr std::size_t kMaxBatchReplyBytes = 4 * 1024 * 1024;
// One reply of a Redis server is never larger: the largest record has a reply of kMaxReplyBytes,
// and sealing adds less than as much again.
inline constexpr std::size_t kMaxRedisReplyBytes = 64 * 1024 * 1024;

// Administration. Records of one page: 200 of the largest, without their replies, stay below
// the 4 MiB that gRPC receives by default.
inline constexpr int kDefaultListPage = 50;
inline constexpr int kMaxListPage = 200;
// Records that one page examines where filters leave some out.
inline constexpr int kMaxListVisited = 500;
// The same for entries of the audit log.
inline constexpr int kMaxAuditVisited = 1'000;
// Records of one step of a purge, which is one transaction.
inline constexpr int kMaxPurgeStep = 500;
// Records of one step of a reseal, and the replies that it reads, exceeded by at most one. Each
// reply exists three times until it is written.
inline constexpr int kMaxResealStep = 100;
inline constexpr std::size_t kMaxResealStepBytes = 4 * 1024 * 1024;
// The name of an administrator in the audit log.
inline constexpr std::size_t kMaxActorBytes = 255;

// A record's row is kept this much longer than its retention, or than its tombstone's. The
// store's clock may step back by up to this much, also in a failover to a server whose clock is
// behind: wherever the window opens again, the row still exists and its key is known. NTP steps
// by seconds; a larger step is an operator's mistake.
inline constexpr absl::Duration kClockStepMargin = absl::Minutes(5);

}  // namespace idempotency::limits

#endif  // IDEMPOTENCY_SERVER_STORE_LIMITS_H_
