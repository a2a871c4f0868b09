// The parts of the Redis store that need no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/store/redis/connections.h"
#include "server/store/redis/identity.h"
#include "server/store/redis/options.h"
#include "server/store/redis/record.h"
#include "server/store/redis/reply.h"
#include "server/store/redis/scripts.h"
#include "server/store/redis/server.h"
#include "server/store/redis/slots.h"
#include "server/store/redis/socket.h"
#include "server/store/redis/topology.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Mode = RedisOptions::Mode;

TEST(RedisUrlTest, EveryPart) {
  const auto options = ParseRedisUrl(
      "rediss+sentinel://app%40x@a:1,[::1]:2,c/3?master=main&prefix=p:1&password_file=/s%20x&"
      "tls_ca=/ca&tls_cert=/c&tls_key=/k&connect_timeout=1s&command_timeout=3s&wait_replicas=2&"
      "wait_aof=1&wait_timeout=500ms&sentinel_password_file=/sp");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->mode, Mode::kSentinel);
  EXPECT_TRUE(options->tls);
  EXPECT_EQ(options->user, "app@x");
  ASSERT_THAT(options->addresses, SizeIs(3));
  EXPECT_EQ(options->addresses[1].ToString(), "[::1]:2");
  EXPECT_EQ(options->addresses[2].port, 26379);
  EXPECT_EQ(options->database, 3);
  EXPECT_EQ(options->master, "main");
  EXPECT_EQ(options->prefix, "p:1");
  EXPECT_EQ(options->password.file, "/s x");
  EXPECT_EQ(options->sentinel_password.file, "/sp");
  EXPECT_EQ(options->tls_ca, "/ca");
  EXPECT_EQ(options->connect_timeout, absl::Seconds(1));
  EXPECT_EQ(options->command_timeout, absl::Seconds(3));
  EXPECT_EQ(options->wait_replicas, 2);
  EXPECT_TRUE(options->wait_aof);
  EXPECT_EQ(options->wait_timeout, absl::Milliseconds(500));
  EXPECT_EQ(DisplayRedis(*options), "rediss+sentinel://a:1,[::1]:2,c:26379/3");
}

TEST(RedisUrlTest, ReportsTheFaultAndNeverQuotes) {
  const std::pair<std::string, std::string> cases[] = {
      {"redis://me:hunter2@db", "must not have a password"},
      {"redis://:hunter2@db", "must not have a password"},
      {"redis://me:hunter2@x@db", "must not have a password"},
      {"redis://", "HOST"},
      {"redis://a:0", "HOST"},
      {"redis://a:99999", "HOST"},
      {"redis://[::1", "HOST"},
      {"redis://a,b", "one server"},
      {"redis://a/x", "number"},
      {"redis://a/-1", "database"},
      {"redis+cluster://a/1", "0 in a Cluster"},
      {"redis+sentinel://a", "master=NAME"},
      {"redis://a?master=x", "master=NAME"},
      {"redis://a?password=hunter2", "unknown parameter"},
      {"redis://a?prefix={x}", "braces"},
      {"redis://a?prefix=", "prefix"},
      {"redis://a?command_timeout=fast", "command_timeout"},
      {"redis://a?command_timeout=0s", "timeouts"},
      {"redis://a?wait_replicas=-1", "wait_replicas"},
      {"redis://a?wait_aof=2", "wait_aof"},
      {"redis://a?tls_ca=/x", "rediss"},
      {"rediss://a?tls_cert=/x", "both"},
      {"redis://a%0a", "HOST"},
      {"redis://a?prefix=%zz", "prefix"},
  };
  for (const auto& [url, message] : cases) {
    SCOPED_TRACE(url);
    const absl::Status status = ParseRedisUrl(url).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("hunter2")));
  }
}

TEST(RedisSecretTest, IsReadAgainEachTime) {
  testing::TempFolder folder;
  const RedisSecret secret{folder.File("password"), ""};
  EXPECT_FALSE(secret.Read().ok());
  std::ofstream(secret.file) << "one\n";
  EXPECT_EQ(secret.Read().value(), "one");
  std::ofstream(secret.file) << "two";
  EXPECT_EQ(secret.Read().value(), "two");
  std::ofstream(secret.file) << "";
  EXPECT_FALSE(secret.Read().ok());
}

// Values of the Cluster's specification, and of redis-cli's CLUSTER KEYSLOT.
TEST(RedisSlotsTest, AreThoseOfTheCluster) {
  EXPECT_EQ(RedisSlotOf("123456789"), 0x31C3 % kRedisSlots);
  EXPECT_EQ(RedisSlotOf("foo"), 12182);
  EXPECT_EQ(RedisSlotOf("{foo}.bar"), 12182);
  EXPECT_EQ(RedisSlotOf("{}foo"), 9500);
  EXPECT_NE(RedisSlotOf("{}foo"), RedisSlotOf("foo"));
}

TEST(RedisSocketTest, EachAddressOfAHostGetsItsTurn) {
  const auto now = std::chrono::steady_clock::now();
  const auto deadline = now + std::chrono::seconds(2);
  EXPECT_EQ(EndOfAttempt(now, deadline, 1), deadline);
  const auto first = EndOfAttempt(now, deadline, 2);
  EXPECT_EQ(first, now + std::chrono::seconds(1));
  EXPECT_EQ(EndOfAttempt(first, deadline, 1), deadline);
}

TEST(RedisTopologyTest, AServerThatFailedIsTriedByOneCallerAtATime) {
  RedisOptions options;
  options.min_backoff = options.max_backoff = absl::Milliseconds(1);
  RedisTopology topology(options);
  const RedisAddress server{"127.0.0.1", 1};
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  EXPECT_TRUE(topology.MayTry(server));
  EXPECT_TRUE(topology.MayTry(server)) << "it did not fail";
  topology.NoteFailed(server, absl::UnavailableError("gone"));
  EXPECT_EQ(topology.NextFailed({server}), server);
  pause();
  EXPECT_TRUE(topology.MayTry(server));
  EXPECT_FALSE(topology.MayTry(server)) << "another caller tries it";
  topology.NoteUnreached(server, absl::UnavailableError("refused"), absl::Microseconds(1));
  pause();
  EXPECT_TRUE(topology.MayTry(server)) << "a refusal takes no time";
  topology.NoteUnreached(server, absl::UnavailableError("frozen"), absl::Seconds(2));
  pause();
  EXPECT_FALSE(topology.MayTry(server));
  topology.NoteFailed(server, absl::UnavailableError("an old connection"));
  pause();
  EXPECT_FALSE(topology.MayTry(server));
  topology.NoteReached(server);
  EXPECT_TRUE(topology.MayTry(server));
  EXPECT_EQ(topology.NextFailed({server}), std::nullopt);
}

TEST(RedisTopologyTest, ServersThatFailedTakeTurns) {
  RedisTopology topology((RedisOptions()));
  const std::vector<RedisAddress> servers = {{"127.0.0.1", 3}, {"127.0.0.1", 1}, {"127.0.0.1", 2}};
  topology.NoteFailed({"127.0.0.1", 4}, absl::UnavailableError("no longer a master"));
  EXPECT_EQ(topology.NextFailed(servers), std::nullopt);
  for (const RedisAddress& server : servers) {
    topology.NoteFailed(server, absl::UnavailableError("gone"));
  }
  std::vector<int> tried;
  for (int i = 0; i < 4; ++i) tried.push_back(topology.NextFailed(servers)->port);
  EXPECT_THAT(tried, ::testing::ElementsAre(1, 2, 3, 1));
  topology.NoteReached({"127.0.0.1", 1});
  topology.NoteReached({"127.0.0.1", 2});
  EXPECT_EQ(topology.NextFailed(servers), servers[0]);
}

RedisServer ServerFrom(const std::string& more) {
  return ParseRedisInfo(
      "# Server\r\nredis_version:7.0.15\r\nrole:master\r\ncluster_enabled:0\r\n"
      "loading:0\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n" +
      more);
}

// So that no server comes back without its data unnoticed.
TEST(RedisIdentityTest, EveryServerOfALargeClusterHasAMarker) {
  for (const char* const prefix : {"idempotency", "team-a:idempotency", "p"}) {
    RedisOptions options;
    options.prefix = prefix;
    const RedisIdentity identity(options);
    ASSERT_EQ(identity.keys().size(), RedisIdentity::kMarkers);
    for (int servers = 1; servers <= 64; ++servers) {
      std::vector<int> markers(servers);
      for (const std::string& key : identity.keys()) {
        ++markers[RedisSlotOf(key) * servers / kRedisSlots];
      }
      EXPECT_THAT(markers, ::testing::Each(::testing::Gt(0))) << prefix << ", " << servers;
    }
  }
}

TEST(RedisServerTest, OneThatMayDropRecordsIsRefused) {
  RedisOptions options;
  EXPECT_TRUE(CheckRedisServer(ServerFrom(""), options).ok());
  const auto refusal = [&](const std::string& more) {
    return CheckRedisServer(ServerFrom(more), options);
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(refusal("maxmemory_policy:volatile-ttl\r\n")));
  EXPECT_TRUE(absl::IsFailedPrecondition(refusal("redis_version:5.0.14\r\n")));
  EXPECT_TRUE(absl::IsFailedPrecondition(refusal("cluster_enabled:1\r\n")));
  EXPECT_TRUE(absl::IsUnavailable(refusal("role:slave\r\n")));
  EXPECT_TRUE(absl::IsUnavailable(refusal("loading:1\r\n")));
  EXPECT_TRUE(absl::IsUnavailable(CheckRedisServer(ParseRedisInfo("nonsense"), options)));
  options.wait_aof = true;
  EXPECT_TRUE(absl::IsFailedPrecondition(refusal("")));
  EXPECT_TRUE(refusal("redis_version:7.2.0\r\n").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(refusal("redis_version:8.0.0\r\naof_enabled:0\r\n")));
}

TEST(RedisServerTest, WarnsOfWhatACrashLoses) {
  EXPECT_THAT(RedisDurabilityWarnings(ServerFrom(""), {"always", "no"}), IsEmpty());
  for (const char* const fsync : {"everysec", "no", ""}) {
    EXPECT_THAT(RedisDurabilityWarnings(ServerFrom(""), {fsync, "no"}), SizeIs(1)) << fsync;
  }
  for (const char* const none_on_rewrite : {"yes", ""}) {
    EXPECT_THAT(RedisDurabilityWarnings(ServerFrom(""), {"always", none_on_rewrite}), SizeIs(1))
        << none_on_rewrite;
  }
  EXPECT_THAT(RedisDurabilityWarnings(ServerFrom("aof_enabled:0\r\n"), {"always", "no"}),
              SizeIs(1));
}

TEST(RedisRecordTest, LabelsComeBack) {
  const std::map<std::string, std::string> labels = {{"a", std::string("\0\xFF", 2)}, {"b", ""}};
  EXPECT_EQ(UnpackRedisLabels(PackRedisLabels(labels)), labels);
  const std::string bytes = PackRedisLabels(labels);
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    const auto cut = UnpackRedisLabels(bytes.substr(0, size));
    EXPECT_TRUE(!cut || cut->size() < labels.size()) << size;
  }
}

TEST(RedisSliceTest, HoldsFewBytesOrOneCall) {
  const auto slice_of = [](const std::vector<std::size_t>& sizes) {
    std::vector<RedisCall> calls;
    for (const std::size_t size : sizes) calls.push_back({std::string(size, 'w'), 0, nullptr});
    return FirstSliceOf(calls);
  };
  constexpr std::size_t kMax = kMaxRedisSliceBytes;
  EXPECT_EQ(slice_of({1}), 1u);
  EXPECT_EQ(slice_of({1, 2, 3}), 3u);
  EXPECT_EQ(slice_of({kMax - 3, 1, 2}), 3u);
  EXPECT_EQ(slice_of({kMax - 3, 1, 3}), 2u);
  EXPECT_EQ(slice_of({kMax + 1, 1}), 1u);
  EXPECT_EQ(slice_of({1, kMax, 1}), 1u);
}

TEST(RedisConfirmationTest, IsOfTheServerAndItsReplicas) {
  RedisOptions options;
  options.wait_replicas = 1;
  const auto confirmed = [&](const std::string& wire) {
    redisReader* const reader = redisReaderCreate();
    void* reply = nullptr;
    EXPECT_EQ(redisReaderFeed(reader, wire.data(), wire.size()), REDIS_OK);
    EXPECT_EQ(redisReaderGetReply(reader, &reply), REDIS_OK);
    redisReaderFree(reader);
    return IsRedisConfirmed(RedisReply(static_cast<redisReply*>(reply)), options);
  };
  const auto of_files = [&](int server, int replicas) {
    return confirmed("*2\r\n:" + std::to_string(server) + "\r\n:" + std::to_string(replicas) +
                     "\r\n");
  };
  EXPECT_FALSE(confirmed(":0\r\n"));
  EXPECT_TRUE(confirmed(":1\r\n"));
  EXPECT_FALSE(confirmed("-ERR no\r\n"));
  EXPECT_FALSE(of_files(1, 1)) << "the answer to another command";
  options.wait_aof = true;
  EXPECT_FALSE(of_files(0, 1));
  EXPECT_FALSE(of_files(1, 0));
  EXPECT_TRUE(of_files(1, 1));
  EXPECT_TRUE(of_files(1, 2));
  EXPECT_FALSE(confirmed("-ERR no\r\n"));
  EXPECT_FALSE(confirmed(":1\r\n"));
  options.wait_replicas = 0;
  EXPECT_FALSE(of_files(0, 0));
  EXPECT_TRUE(of_files(1, 0));
}

TEST(RedisErrorTest, TheCodeIsTheFirstWord) {
  EXPECT_EQ(RedisErrorCode("MOVED 3999 127.0.0.1:6381"), "MOVED");
  EXPECT_EQ(RedisErrorCode("NOAUTH"), "NOAUTH");
  EXPECT_EQ(RedisErrorCode(""), "");
  EXPECT_EQ(RedisErrorCode("ERR unknown command: -READONLY"), "ERR");
  EXPECT_EQ(RedisErrorCode("WRONGTYPE Operation against a key"), "WRONGTYPE");
}

TEST(RedisErrorTest, Redis6WrapsTheErrorOfACommandInAScript) {
  const std::string wrapped =
      "ERR Error running script (call to f_6b1bf486c81ceb7edf3c093f4c48582e38c0e791): "
      "@user_script:3: @user_script: 3: ";
  const std::string readonly = "-READONLY You can't write against a read only replica.";
  EXPECT_EQ(RedisErrorCode(wrapped + readonly), "READONLY");
  EXPECT_TRUE(IsRedisReplaced(wrapped + readonly));
  EXPECT_TRUE(IsRedisReplaced(readonly.substr(1)));
  EXPECT_TRUE(IsRedisReplaced(wrapped + "-MASTERDOWN Link with MASTER is down"));
  EXPECT_FALSE(IsRedisReplaced(wrapped + "-OOM command not allowed"));
  EXPECT_FALSE(IsRedisReplaced(wrapped + "attempt to index a nil value"));
  EXPECT_EQ(RedisErrorCode(wrapped + "attempt to index a nil value"), "ERR");
}

TEST(RedisScriptsTest, EachHasAnotherName) {
  std::set<std::string> names;
  for (const RedisScript* const script : RedisScripts()) {
    EXPECT_THAT(script->name, SizeIs(40));
    EXPECT_TRUE(names.insert(script->name).second);
  }
}

}  // namespace
}  // namespace idempotency::internal
