#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_CALLS_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_CALLS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/decision.h"
#include "server/store/limits.h"
#include "server/store/record_operations.h"
#include "server/store/redis/connections.h"
#include "server/store/redis/options.h"
#include "server/store/redis/reply.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// A larger reply is not in the answer of a reservation: it is read separately, within
// limits::kMaxBatchReplyBytes. All that are smaller fit into that limit together.
inline constexpr std::size_t kRedisInlineReplyBytes =
    limits::kMaxBatchReplyBytes / limits::kMaxBatch;

// A verdict whose reply may have to be read separately.
struct RedisVerdict {
  absl::StatusOr<Verdict> verdict;
  // The size of the reply of a Replay.
  std::size_t reply_bytes = 0;
  bool reply_left_out = false;
  // The retention of the reply's content is over.
  bool reply_over = false;
};

// The calls of the store's operations, and the meaning of their answers. Immutable.
class RedisCalls {
 public:
  explicit RedisCalls(const RedisOptions& options) : options_(options) {}

  std::string KeyOf(const RecordId& id) const;

  RedisCall Reserve(const ReserveOp& op) const;
  static RedisVerdict VerdictOf(const absl::StatusOr<RedisReply>& reply);

  RedisCall Complete(const CompleteOp& op) const;
  static absl::StatusOr<Completion> CompletionOf(const absl::StatusOr<RedisReply>& reply);

  RedisCall Release(const ReleaseOp& op) const;
  static absl::Status ReleasedOf(const absl::StatusOr<RedisReply>& reply);

  RedisCall Extend(const ExtendOp& op) const;
  static absl::StatusOr<Extension> ExtensionOf(const absl::StatusOr<RedisReply>& reply);

  // With the reply if it has at most `largest_reply` bytes.
  RedisCall Read(const RecordId& id, std::size_t largest_reply, bool confirmed) const;

  // Changes a record if it is still as it was read: integer 1, else 0.
  struct Field {
    std::string name;
    std::string value;
  };
  // While memory is full: a change that frees memory, or adds a few bytes to a record once, is
  // made; the others are refused as every command is that may need more.
  enum class IfFull { kRefused, kMade };
  RedisCall Change(const StoredRecord& read, absl::Span<const Field> fields, IfFull if_full) const;
  RedisCall Remove(const StoredRecord& read) const;

  // Any other command on one key, which is its second argument.
  static RedisCall Plain(absl::Span<const std::string_view> arguments);

  // The same, for a small one that writes, also while memory is full.
  RedisCall Anyway(absl::Span<const std::string_view> arguments) const;

  // Only the server's time, as the answer of Read() begins.
  RedisCall ReadClock(const std::string& key) const;
  RedisCall SweepLock(const std::string& owner, absl::Duration life) const;

 private:
  // EVALSHA with the key, and the first two arguments of every script.
  RedisCall Script(const RedisScript& script, std::string_view key, bool confirm,
                   absl::Span<const std::string_view> arguments) const;
  RedisCall ChangeAs(const StoredRecord& read, bool remove, absl::Span<const Field> fields,
                     IfFull if_full) const;

  const RedisOptions& options_;
};

// The caller's error for a call without an answer: STORE_UNAVAILABLE, or RECORD_DAMAGED.
absl::Status ToRedisCallerStatus(const absl::Status& failure);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_CALLS_H_
