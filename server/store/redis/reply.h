#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_REPLY_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_REPLY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/types/span.h"

struct redisReply;

namespace idempotency::internal {

// A part of a reply; valid as long as the reply. Reading a part of another type, or an element
// that is not there, gives an empty one: the caller checks what it needs. A value type.
class RedisValue {
 public:
  RedisValue() = default;
  explicit RedisValue(const redisReply* reply) : reply_(reply) {}

  bool IsError() const;
  bool IsInteger() const;
  bool IsNil() const;
  // The text of a string, a status or an error.
  std::string_view text() const;
  // The value of an integer, or of a string that is one; 0 otherwise.
  std::int64_t integer() const;
  std::size_t size() const;
  RedisValue operator[](std::size_t index) const;

 private:
  const redisReply* reply_ = nullptr;
};

// A whole reply. Movable.
class RedisReply {
 public:
  // Takes ownership.
  explicit RedisReply(redisReply* reply) : reply_(reply) {}

  RedisValue value() const { return RedisValue(reply_.get()); }

 private:
  struct Free {
    void operator()(redisReply* reply) const;
  };
  std::unique_ptr<redisReply, Free> reply_;
};

// The code of an error: "MOVED", "OOM", ... Redis 6 puts that of a command in a script, and a dash,
// behind the text of the script's own error, whose code is ERR.
std::string_view RedisErrorCode(std::string_view error);

// Whether another server has taken the place of the one that answered with this error, or will.
bool IsRedisReplaced(std::string_view error);

// A command as it is sent.
std::string RedisWire(absl::Span<const std::string_view> arguments);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_REPLY_H_
