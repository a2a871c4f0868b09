#ifndef IDEMPOTENCY_SERVER_RPC_OLDEST_UNREAD_H_
#define IDEMPOTENCY_SERVER_RPC_OLDEST_UNREAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "grpc_idempotency/deadline.h"
#include "server/rpc/answers_by_host.h"

namespace idempotency::internal {

// The answers of a session, or that of a unary call, which its caller has not read, replies apart.
struct UnreadAnswers {
  enum class Of { kSession, kUnaryCall };

  // Among all of its kind.
  std::uint64_t place = 0;
  // When the write began that has not ended.
  SteadyTime since;
  std::size_t bytes = 0;
  // Null: not counted by host. It may outlive the call.
  std::shared_ptr<const HostAnswers> host;
  Of of = Of::kSession;
};

// Returns the calls to end: those that have not read for the longest time, until `excess` bytes are
// released of all, and until no host has more than a quarter of `pool`, if it has more than half.
// Ties: the first.
std::vector<UnreadAnswers> OldestUnread(std::vector<UnreadAnswers> all, std::size_t excess,
                                        std::size_t pool);

// Whether this host has more than half of `pool`.
inline bool HasTooMuch(const HostAnswers* host, std::size_t pool) {
  return host != nullptr && host->load(std::memory_order_relaxed) > pool / 2;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_OLDEST_UNREAD_H_
