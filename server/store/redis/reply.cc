#include "server/store/redis/reply.h"

#include <hiredis/hiredis.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"

namespace idempotency::internal {

bool RedisValue::IsError() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ERROR; }

bool RedisValue::IsInteger() const {
  return reply_ != nullptr && reply_->type == REDIS_REPLY_INTEGER;
}

bool RedisValue::IsNil() const { return reply_ == nullptr || reply_->type == REDIS_REPLY_NIL; }

std::string_view RedisValue::text() const {
  if (reply_ == nullptr || reply_->str == nullptr) return {};
  return {reply_->str, static_cast<std::size_t>(reply_->len)};
}

std::int64_t RedisValue::integer() const {
  if (reply_ == nullptr) return 0;
  if (reply_->type == REDIS_REPLY_INTEGER) return reply_->integer;
  std::int64_t number = 0;
  return absl::SimpleAtoi(AbslView(text()), &number) ? number : 0;
}

std::size_t RedisValue::size() const {
  return reply_ != nullptr && reply_->type == REDIS_REPLY_ARRAY ? reply_->elements : 0;
}

RedisValue RedisValue::operator[](std::size_t index) const {
  return index < size() ? RedisValue(reply_->element[index]) : RedisValue();
}

void RedisReply::Free::operator()(redisReply* reply) const { freeReplyObject(reply); }

std::string_view RedisErrorCode(std::string_view error) {
  constexpr std::string_view kInScript = "ERR Error running script";
  constexpr std::string_view kBeforeCode = ": -";
  if (error.substr(0, kInScript.size()) == kInScript) {
    const std::size_t place = error.find(kBeforeCode);
    if (place != std::string_view::npos) error.remove_prefix(place + kBeforeCode.size());
  }
  return error.substr(0, error.find(' '));
}

bool IsRedisReplaced(std::string_view error) {
  const std::string_view code = RedisErrorCode(error);
  return code == "READONLY" || code == "MASTERDOWN" || code == "LOADING" || code == "CLUSTERDOWN";
}

std::string RedisWire(absl::Span<const std::string_view> arguments) {
  std::size_t bytes = 16;
  for (const std::string_view argument : arguments) bytes += argument.size() + 24;
  std::string wire;
  wire.reserve(bytes);
  absl::StrAppend(&wire, "*", arguments.size(), "\r\n");
  for (const std::string_view argument : arguments) {
    absl::StrAppend(&wire, "$", argument.size(), "\r\n", AbslView(argument), "\r\n");
  }
  return wire;
}

}  // namespace idempotency::internal
