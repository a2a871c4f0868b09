#ifndef IDEMPOTENCY_SERVER_RPC_ANSWERS_BY_HOST_H_
#define IDEMPOTENCY_SERVER_RPC_ANSWERS_BY_HOST_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"

#include "core/mutex.h"

namespace idempotency::internal {

// The bytes of unread answers, replies apart, of a host's calls.
using HostAnswers = std::atomic<std::size_t>;

// The hosts that have sessions, or unread answers of unary calls. Thread-safe.
class AnswersByHost {
 public:
  AnswersByHost() = default;
  // No host is in use any more.
  ~AnswersByHost() = default;
  AnswersByHost(const AnswersByHost&) = delete;
  AnswersByHost& operator=(const AnswersByHost&) = delete;

  // One for all calls of a host (server/rpc/remote_address.h); null if it is empty, as for Unix
  // sockets.
  std::shared_ptr<HostAnswers> Of(const std::string& host) ABSL_LOCKS_EXCLUDED(mutex_);

  // The number of hosts in use.
  std::size_t hosts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Forget(const std::string& host) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<HostAnswers>> hosts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_ANSWERS_BY_HOST_H_
