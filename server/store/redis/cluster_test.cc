// The Redis store on a Cluster: slots that move, and nodes that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/store/redis/identity.h"
#include "server/store/redis/index.h"
#include "server/store/redis/redis_store.h"
#include "server/store/redis/slots.h"
#include "server/store/redis/testing/captured_log.h"
#include "server/store/redis/testing/store_fixture.h"
#include "tests/support/redis_process.h"

namespace idempotency::internal {
namespace {

using testing::Eventually;
using ::testing::HasSubstr;
using testing::RedisClusterProcesses;
using testing::RedisProcess;

// Of three, each with the slots from a third, rounded down.
int NodeOf(int slot) { return (slot * 3 + 2) / kRedisSlots; }

// Moves one slot from a node to another, as resharding does.
void MoveSlot(RedisClusterProcesses& cluster, int slot, int from, int to) {
  const std::string number = absl::StrCat(slot);
  const std::string to_id(cluster.node(to).Must({"CLUSTER", "MYID"}).value().text());
  for (int i = 0; i < cluster.size(); ++i) {
    if (i == from || i == to) continue;
    cluster.node(i).Must({"CLUSTER", "SETSLOT", number, "NODE", to_id});
  }
  cluster.node(to).Must({"CLUSTER", "SETSLOT", number, "NODE", to_id});
  cluster.node(from).Must({"CLUSTER", "SETSLOT", number, "NODE", to_id});
}

class RedisClusterTest : public RedisStoreTest {
 protected:
  void SetUp() override {}
  void StartCluster(int masters = 3) {
    auto cluster = RedisClusterProcesses::Create(masters);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    options_ = cluster_->options();
  }
  // The nodes that are there serve their slots while others are away.
  void ServeInPart() {
    for (int i = 0; i < cluster_->size(); ++i) {
      cluster_->node(i).Must({"CONFIG", "SET", "cluster-require-full-coverage", "no"});
    }
  }

  std::unique_ptr<RedisClusterProcesses> cluster_;
};

TEST_F(RedisClusterTest, ASlotThatMovesTakesItsRecordsAlong) {
  StartCluster();
  const auto store = OpenStore(options_);
  EXPECT_TRUE(store->Inspect().ok());
  const ReserveOp op = OpFor("moving");
  ASSERT_TRUE(Complete(*store, op, MustReserve(*store, op).token).ok());
  const int slot = RedisSlotOf(KeyOf(op.id));
  const int from = NodeOf(slot);
  const int to = (from + 1) % 3;
  RedisProcess& source = cluster_->node(from);
  RedisProcess& target = cluster_->node(to);
  const std::string source_id(source.Must({"CLUSTER", "MYID"}).value().text());
  const std::string target_id(target.Must({"CLUSTER", "MYID"}).value().text());
  const std::string number = absl::StrCat(slot);
  target.Must({"CLUSTER", "SETSLOT", number, "IMPORTING", source_id});
  source.Must({"CLUSTER", "SETSLOT", number, "MIGRATING", target_id});
  EXPECT_TRUE(Replays(*store, op)) << "it is still at the source";
  source.Must({"MIGRATE", "127.0.0.1", absl::StrCat(target.port()), KeyOf(op.id), "0", "5000"});
  EXPECT_TRUE(Replays(*store, op)) << "ASK";
  MoveSlot(*cluster_, slot, from, to);
  EXPECT_TRUE(Replays(*store, op)) << "MOVED";
  EXPECT_TRUE(Get(*store, op).ok());
}

TEST_F(RedisClusterTest, ANodeThatIsGoneTakesOnlyItsOwnRecordsAway) {
  StartCluster();
  ServeInPart();
  options_.command_timeout = absl::Milliseconds(500);
  options_.connect_timeout = absl::Milliseconds(500);
  const auto store = OpenStore(options_);
  const std::vector<ReserveOp> ops = OpsFor("node-", 60);
  for (const auto& verdict : store->Reserve(ops)) EXPECT_TRUE(verdict.ok()) << verdict.status();
  cluster_->node(1).process().Freeze();
  const auto verdicts = store->Reserve(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const int shard = ops[i].id.bytes()[15] % RedisIndex::kShards;
    bool there = false;
    for (const std::string& key : {KeyOf(ops[i].id), absl::StrCat(options_.prefix, ":i:", shard)}) {
      there = there || NodeOf(RedisSlotOf(key)) == 1;
    }
    EXPECT_EQ(verdicts[i].ok(), !there) << i;
  }
  const auto inspected = store->Inspect();
  EXPECT_TRUE(inspected.ok()) << "the other records are available: " << inspected.status();
  for (const int node : {0, 2}) cluster_->node(node).process().Freeze();
  EXPECT_FALSE(store->Inspect().ok());
  for (const int node : {0, 1, 2}) cluster_->node(node).process().Signal(SIGCONT);
  EXPECT_TRUE(Eventually([&] {
    const auto again = store->Reserve(ops);
    return std::all_of(again.begin(), again.end(), [](const auto& v) { return v.ok(); });
  }));
}

TEST_F(RedisClusterTest, ANodeThatIsAwayKeepsNoProcessFromStarting) {
  StartCluster();
  ServeInPart();
  options_.connect_timeout = absl::Seconds(1);
  options_.command_timeout = absl::Seconds(1);
  RedisProcess& node = cluster_->node(1);
  node.process().Freeze();
  EXPECT_EQ(RedisStore::Open(options_).status().code(), absl::StatusCode::kUnavailable)
      << "new markers are for all of them";
  node.process().Signal(SIGCONT);
  ASSERT_TRUE(Eventually([&] { return RedisStore::Open(options_).ok(); }));
  options_.accept_empty = false;
  node.process().Freeze();
  const auto store = OpenStore(options_);
  ASSERT_NE(store, nullptr);
  EXPECT_FALSE(RedisStore::FindMarkerFaults(options_).ok()) << "a status is of all of them";
  const std::vector<ReserveOp> ops = OpsFor("start-", 30);
  const auto verdicts = store->Reserve(ops);
  const auto served = std::count_if(verdicts.begin(), verdicts.end(),
                                    [](const auto& verdict) { return verdict.ok(); });
  EXPECT_GT(served, 0);
  EXPECT_LT(served, 30);
  node.process().Signal(SIGCONT);
  ASSERT_TRUE(Eventually([&] {
    if (!store->Inspect().ok()) return false;
    const auto again = store->Reserve(ops);
    return std::all_of(again.begin(), again.end(), [](const auto& v) { return v.ok(); });
  }));
  // What is missing on one that is reached counts, whether or not another is away.
  node.process().Freeze();
  const RedisIdentity identity(options_);
  for (const std::string& key : identity.keys()) {
    if (NodeOf(RedisSlotOf(key)) == 2) cluster_->node(2).Must({"DEL", key});
  }
  EXPECT_FALSE(RedisStore::Open(options_).ok());
  options_.accept_empty = true;
  EXPECT_FALSE(RedisStore::Open(options_).ok());
  node.process().Signal(SIGCONT);
}

// Its records alone: the others have all of theirs.
TEST_F(RedisClusterTest, ANodeThatLostItsDataIsCountedAndTheOthersServe) {
  StartCluster();
  ServeInPart();
  const auto store = OpenStore(options_);
  ASSERT_TRUE(store->Inspect().ok());
  EXPECT_EQ(store->Inspect()->redis_lost_servers, 0);
  const CapturedLog log;
  RedisProcess& node = cluster_->node(1);
  node.Kill();
  node.RemoveData();
  ASSERT_TRUE(node.Start().ok());
  const auto lost = [&] {
    const auto gauges = store->Inspect();
    return gauges.ok() ? gauges->redis_lost_servers : std::nullopt;
  };
  EXPECT_TRUE(Eventually([&] { return lost() == 1; }));
  EXPECT_THAT(log.text(), HasSubstr("[error] redis: " + node.address().ToString() +
                                    ": it has lost some or all records"));
  const std::vector<ReserveOp> ops = OpsFor("lost-", 30);
  const auto verdicts = store->Reserve(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (NodeOf(RedisSlotOf(KeyOf(ops[i].id))) == 1) EXPECT_FALSE(verdicts[i].ok());
  }
  EXPECT_GT(std::count_if(verdicts.begin(), verdicts.end(), [](const auto& v) { return v.ok(); }),
            0);
  RedisOptions another = options_;
  another.accept_empty = false;
  EXPECT_EQ(RedisStore::Open(another).status().code(), absl::StatusCode::kFailedPrecondition);
  // The loss is accepted.
  OpenStore(options_).reset();
  EXPECT_TRUE(Eventually([&] { return lost() == 0; }));
  for (const auto& verdict : store->Reserve(ops)) EXPECT_TRUE(verdict.ok()) << verdict.status();
}

// Each idle connection of the pool would keep its own.
TEST_F(RedisClusterTest, SocketsOfFormerNodesAreClosed) {
  StartCluster();
  const auto store = OpenStore(options_);
  const std::vector<ReserveOp> ops = OpsFor("former-", 30);
  // Callers at the same time, of which each opens a connection to each node.
  ASSERT_TRUE(Eventually([&] {
    std::vector<std::thread> callers;
    for (int i = 0; i < options_.connections; ++i) {
      callers.emplace_back([&] {
        pthread_setname_np(pthread_self(), "caller");
        store->Reserve(ops);
      });
    }
    for (std::thread& caller : callers) caller.join();
    return store->connections().idle == options_.connections;
  }));
  cluster_->node(1).Kill();
  const auto closed_by_the_node = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      tcp_info info{};
      socklen_t size = sizeof(info);
      const int descriptor = std::atoi(entry.path().filename().c_str());
      if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
          info.tcpi_state == TCP_CLOSE_WAIT) {
        ++count;
      }
    }
    return count;
  };
  EXPECT_TRUE(Eventually([&] { return closed_by_the_node() > 0; }));
  for (int i = 0; i < options_.connections; ++i) store->Inspect().status().IgnoreError();
  EXPECT_EQ(closed_by_the_node(), 0);
}

// Each call of the health check would wait for all of them otherwise.
TEST_F(RedisClusterTest, AnInspectionTriesOneLostNode) {
  StartCluster(/*masters=*/5);
  ServeInPart();
  options_.command_timeout = absl::Milliseconds(500);
  options_.connect_timeout = absl::Seconds(3);
  const auto store = OpenStore(options_);
  ASSERT_TRUE(store->Inspect().ok());
  for (const int node : {1, 2}) cluster_->node(node).process().Freeze();
  // Those meet both.
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(store->Inspect().ok());
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(store->Inspect().ok());
  EXPECT_LT(absl::FromChrono(std::chrono::steady_clock::now() - began),
            options_.connect_timeout + absl::Seconds(2));
  for (const int node : {1, 2}) cluster_->node(node).process().Signal(SIGCONT);
}

// Each call would wait for a connection to it otherwise.
TEST_F(RedisClusterTest, ANodeThatDoesNotAnswerDelaysFewCalls) {
  StartCluster();
  ServeInPart();
  options_.command_timeout = absl::Milliseconds(500);
  options_.connect_timeout = absl::Seconds(10);
  const auto store = OpenStore(options_);
  const std::vector<ReserveOp> ops = OpsFor("node-", 30);
  store->Reserve(ops);
  cluster_->node(1).process().Freeze();
  // The commands that it does not answer, and one attempt to connect.
  store->Reserve(ops);
  int delayed = 0;
  for (int call = 0; call < 8; ++call) {
    // Longer than a pause between attempts to connect.
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(options_.max_backoff));
    const auto began = std::chrono::steady_clock::now();
    store->Reserve(ops);
    const auto took = absl::FromChrono(std::chrono::steady_clock::now() - began);
    if (took > options_.connect_timeout / 2) ++delayed;
  }
  EXPECT_LE(delayed, 1);
  cluster_->node(1).process().Signal(SIGCONT);
  ASSERT_TRUE(store->Inspect().ok());
  for (const auto& verdict : store->Reserve(ops)) {
    EXPECT_TRUE(verdict.ok()) << "it is back: " << verdict.status();
  }
}

}  // namespace
}  // namespace idempotency::internal
