#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_SCRIPTS_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_SCRIPTS_H_

#include <string>

#include "absl/types/span.h"

namespace idempotency::internal {

namespace redis_script_text {
// server/store/redis/scripts/*.lua
extern const char k_record[];
extern const char k_reserve[];
extern const char k_complete[];
extern const char k_release[];
extern const char k_extend[];
extern const char k_read[];
extern const char k_change[];
extern const char k_sweep_lock[];
extern const char k_anyway[];
}  // namespace redis_script_text

// A script of one key. Its first two arguments are those of record.lua. Immutable.
struct RedisScript {
  std::string text;
  // Its SHA-1, by which EVALSHA names it.
  std::string name;
};

const RedisScript& ReserveScript();
const RedisScript& CompleteScript();
const RedisScript& ReleaseScript();
const RedisScript& ExtendScript();
const RedisScript& ReadScript();
const RedisScript& ChangeScript();
const RedisScript& SweepLockScript();
const RedisScript& AnywayScript();

// All of them.
absl::Span<const RedisScript* const> RedisScripts();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_SCRIPTS_H_
