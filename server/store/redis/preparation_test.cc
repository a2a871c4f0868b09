// The first start of a Redis: the process that prepares it, and those that start beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/store/redis/identity.h"
#include "server/store/redis/markers.h"
#include "server/store/redis/redis_store.h"
#include "server/store/redis/testing/captured_log.h"
#include "tests/support/redis_process.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RedisClusterProcesses;
using testing::RedisProcess;

absl::Status Serve(RedisOptions options) {
  options.accept_empty = false;
  return RedisStore::Open(options).status();
}

absl::Status Prepare(RedisOptions options) {
  options.accept_empty = true;
  return RedisStore::Open(options).status();
}

// A preparation that is stopped after its first marker: the server lets it write no other one.
TEST(RedisPreparationTest, OneThatWasStoppedIsContinuedAndNoLoss) {
  const auto server = RedisProcess::Create().value();
  const RedisOptions options = server->options();
  const RedisIdentity identity(options);
  const std::string& first = identity.keys().front();
  RedisOptions stopped = options;
  stopped.user = "stopped";
  server->Must({"ACL", "SETUSER", stopped.user, "on", "nopass", "+@all", "-config",
                absl::StrCat("%R~", options.prefix, ":*"), absl::StrCat("%W~", first)});
  stopped.password = {server->File("password"), ""};
  std::ofstream(stopped.password.file) << "any";
  EXPECT_FALSE(Prepare(stopped).ok());
  const auto value_of = [&server](const std::string& key) {
    return std::string(server->Must({"GET", key}).value().text());
  };
  const std::string begun = value_of(first);
  ASSERT_THAT(begun, HasSubstr("preparing:1:"));

  const CapturedLog log;
  for (int i = 0; i < 2; ++i) {
    const absl::Status early = Serve(options);
    EXPECT_EQ(early.code(), absl::StatusCode::kUnavailable) << early;
    EXPECT_THAT(std::string(early.message()), HasSubstr("the preparation under"));
    EXPECT_THAT(std::string(early.message()), HasSubstr("run `idempotencyd migrate"));
  }
  const auto faults = RedisStore::FindMarkerFaults(options);
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_TRUE(faults->preparing);
  EXPECT_EQ(faults->missing, RedisIdentity::kMarkers);

  EXPECT_TRUE(Prepare(options).ok());
  EXPECT_THAT(log.text(), Not(HasSubstr("lost records")));
  for (const std::string& key : identity.keys()) EXPECT_EQ("preparing:" + value_of(key), begun);
  EXPECT_TRUE(Serve(options).ok());
}

// What four processes at once find: each prepares it, or waits for it, or finds it new.
void ExpectNoLossIsSeen(RedisOptions options) {
  const CapturedLog log;
  for (int round = 0; round < 10; ++round) {
    const std::string prefix = options.prefix;
    absl::StrAppend(&options.prefix, "-", round);
    std::vector<std::thread> processes;
    for (int i = 0; i < 4; ++i) {
      processes.emplace_back([&options, i] {
        pthread_setname_np(pthread_self(), "process");
        const absl::Status prepared = i % 2 == 0 ? Prepare(options) : absl::OkStatus();
        EXPECT_TRUE(prepared.ok()) << prepared;
        const absl::Status served = Serve(options);
        if (i % 2 == 0) {
          EXPECT_TRUE(served.ok()) << served;
        } else if (absl::IsFailedPrecondition(served)) {
          EXPECT_THAT(std::string(served.message()), HasSubstr("it is new, or lost its data"));
        }
      });
    }
    for (std::thread& process : processes) process.join();
    options.prefix = prefix;
  }
  EXPECT_THAT(log.text(), Not(HasSubstr("lost records")));
}

TEST(RedisPreparationTest, SeveralAtOnceSeeNoLoss) {
  ExpectNoLossIsSeen(RedisProcess::Shared().options());
}

TEST(RedisPreparationTest, SeveralAtOnceSeeNoLossInACluster) {
  auto cluster = RedisClusterProcesses::Create();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ExpectNoLossIsSeen((*cluster)->options());
}

}  // namespace
}  // namespace idempotency::internal
