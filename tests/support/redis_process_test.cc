#include "tests/support/redis_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/strings/match.h"

namespace idempotency::internal::testing {
namespace {

TEST(RedisProcessTest, KillEndsTheChildThatRewritesTheFile) {
  const auto redis = RedisProcess::Create();
  ASSERT_TRUE(redis.ok()) << redis.status();
  (*redis)->Must({"SET", "key", "value"});
  // Microseconds for each key: the rewrite takes a minute.
  (*redis)->Must({"CONFIG", "SET", "rdb-key-save-delay", "60000000"});
  (*redis)->Must({"BGREWRITEAOF"});
  ASSERT_TRUE(Eventually([&] {
    const RedisReply info = (*redis)->Must({"INFO", "persistence"});
    return absl::StrContains(std::string(info.value().text()), "aof_rewrite_in_progress:1");
  }));
  // Each process that has the server's output open is awaited.
  const auto began = std::chrono::steady_clock::now();
  (*redis)->Kill();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(25));
}

}  // namespace
}  // namespace idempotency::internal::testing
