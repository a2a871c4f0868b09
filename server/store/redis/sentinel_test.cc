// The Redis store behind Sentinels: which server it takes for the master.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "server/store/redis/redis_store.h"
#include "server/store/redis/testing/store_fixture.h"
#include "server/store/redis/topology.h"
#include "tests/support/redis_process.h"

namespace idempotency::internal {
namespace {

using testing::Eventually;
using testing::RedisProcess;
using testing::RedisProcessOptions;

// A master, and the replica that takes its place.
class RedisSentinelTest : public RedisStoreTest {
 protected:
  void SetUp() override { master_ = StartServer(); }
  void Replicate(const std::vector<std::string>& settings = {}) {
    next_ = StartReplicaOf(*master_, settings);
  }

  // Of the master with this port, which it calls "main", as the options below do.
  static std::unique_ptr<RedisProcess> StartSentinel(int port, const std::string& settings = "") {
    RedisProcessOptions watching;
    watching.sentinel_configuration =
        absl::StrCat("sentinel monitor main 127.0.0.1 ", port, " 1\n", settings);
    return StartServer(watching);
  }
  static RedisOptions OptionsOf(std::initializer_list<const RedisProcess*> sentinels) {
    RedisOptions options = (*sentinels.begin())->options();
    options.addresses.clear();
    for (const RedisProcess* const sentinel : sentinels) {
      options.addresses.push_back(sentinel->address());
    }
    options.mode = RedisOptions::Mode::kSentinel;
    options.master = "main";
    return options;
  }
  static std::int64_t ReplicasKnownTo(const RedisProcess& sentinel) {
    return static_cast<std::int64_t>(
        sentinel.Must({"SENTINEL", "replicas", "main"}).value().size());
  }

  static std::int64_t KeysOf(const RedisProcess& server) {
    return server.Must({"DBSIZE"}).value().integer();
  }
  bool AwaitReplication() const {
    return Eventually([&] { return KeysOf(*next_) == KeysOf(*master_); });
  }
  void ExpectUseOfNext(Store& store, const std::string& key) const {
    const std::int64_t of_former = KeysOf(*master_);
    const std::int64_t of_next = KeysOf(*next_);
    MustReserve(store, OpFor(key));
    EXPECT_EQ(KeysOf(*master_), of_former);
    EXPECT_GT(KeysOf(*next_), of_next);
  }

  std::unique_ptr<RedisProcess> master_;
  std::unique_ptr<RedisProcess> next_;
};

// After a failover that one of two Sentinels has seen. The other one is cut off from it, as the
// former master is, and is the first of the URL.
class RedisFailoverTest : public RedisSentinelTest {
 protected:
  void SetUp() override {
    RedisSentinelTest::SetUp();
    Replicate();
    const RedisOptions of_master = master_->options();
    MustReserve(*OpenStore(of_master), OpFor("before"));
    ASSERT_TRUE(AwaitReplication());
    // Before the Sentinels start: each would get the hellos of the other one through it.
    next_->Must({"REPLICAOF", "NO", "ONE"});
    behind_ = StartSentinel(master_->port());
    right_ = StartSentinel(next_->port(), "sentinel config-epoch main 5\n");
    options_ = OptionsOf({behind_.get(), right_.get()});
    options_.prefix = of_master.prefix;
    options_.accept_empty = false;
  }

  std::unique_ptr<RedisProcess> behind_;
  std::unique_ptr<RedisProcess> right_;
};

// It lost the network to the Sentinels and its replicas, and not to this process.
TEST_F(RedisSentinelTest, AMasterThatWasReplacedIsLeftAlthoughItAnswers) {
  Replicate();
  const auto sentinel = StartSentinel(master_->port());
  const auto store = OpenStore(OptionsOf({sentinel.get()}));
  MustReserve(*store, OpFor("before"));
  ASSERT_TRUE(AwaitReplication());
  next_->Must({"REPLICAOF", "NO", "ONE"});
  sentinel->Must({"SENTINEL", "REMOVE", "main"});
  sentinel->Must({"SENTINEL", "MONITOR", "main", "127.0.0.1", absl::StrCat(next_->port()), "1"});
  ASSERT_TRUE(store->Inspect().ok());
  ExpectUseOfNext(*store, "after");
}

TEST_F(RedisFailoverTest, OfTwoSentinelsTheOneThatSawTheFailoverIsRight) {
  const auto store = OpenStore(options_);
  // The next call queries the Sentinels again.
  const auto close_connections = [&] {
    next_->Must({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  };
  for (int i = 0; i < 3; ++i) {
    ExpectUseOfNext(*store, absl::StrCat("after-", i));
    close_connections();
  }
  ASSERT_TRUE(store->Inspect().ok());
  ExpectUseOfNext(*store, "inspected");
  // The other one is not right because it alone answers.
  right_->Kill();
  ASSERT_TRUE(store->Inspect().ok());
  ExpectUseOfNext(*store, "alone");
  close_connections();
  ExpectUseOfNext(*store, "queried alone");
}

// The one that names the latest master does not answer, and the one that does is behind.
TEST_F(RedisFailoverTest, ASentinelThatIsBehindLeadsNotBackAlone) {
  options_.connect_timeout = absl::Seconds(3);
  const auto store = OpenStore(options_);
  ASSERT_TRUE(store->Inspect().ok());
  right_->process().Freeze();
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(store->Inspect().ok());
    ExpectUseOfNext(*store, absl::StrCat("after-", i));
  }
  // The first one of them waited for the Sentinel that does not answer.
  EXPECT_LT(absl::FromChrono(std::chrono::steady_clock::now() - began),
            2 * options_.connect_timeout);
  right_->process().Signal(SIGCONT);
}

// The Sentinel that leads it names both, each in an answer of its own.
TEST_F(RedisSentinelTest, WhileReplicasFollowTheNextMasterTheFormerOneIsLeft) {
  const std::vector<std::string> settings = {"--repl-diskless-sync-delay", "60",
                                             "--enable-debug-command", "yes"};
  Replicate(settings);
  std::vector<std::string> of_slow = settings;
  of_slow.insert(of_slow.end(), {"--replica-priority", "0"});
  const auto slow = StartReplicaOf(*master_, of_slow);
  const auto says = [](const RedisProcess& server, const std::string& what) {
    const RedisReply info = server.Must({"INFO", "replication"});
    return absl::StrContains(std::string(info.value().text()), what);
  };
  ASSERT_TRUE(Eventually([&] {
    return says(*master_, "slave1:") && says(*slow, "master_link_status:up") &&
           says(*next_, "master_link_status:up");
  }));
  const auto sentinel = StartSentinel(master_->port());
  const auto store = OpenStore(OptionsOf({sentinel.get()}));
  MustReserve(*store, OpFor("before"));
  ASSERT_TRUE(AwaitReplication());
  ASSERT_TRUE(Eventually([&] { return ReplicasKnownTo(*sentinel) == 2; }));
  // The replica that follows needs everything again, and waits for it.
  next_->Must({"DEBUG", "CHANGE-REPL-ID"});
  // Refused while the Sentinel has not seen the replicas in order.
  ASSERT_TRUE(Eventually([&] {
    const auto begun = sentinel->Command({"SENTINEL", "FAILOVER", "main"});
    return begun.ok() && !begun->value().IsError();
  }));
  const auto port_of = [&](const std::vector<std::string_view>& query, std::size_t port) {
    return sentinel->Must(query).value()[port].integer();
  };
  ASSERT_TRUE(Eventually([&] {
    return port_of({"SENTINEL", "get-master-addr-by-name", "main"}, 1) == next_->port();
  }));
  const auto inspected = store->Inspect();
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  const std::int64_t of_next = KeysOf(*next_);
  MustReserve(*store, OpFor("after"));
  EXPECT_GT(KeysOf(*next_), of_next);
  EXPECT_EQ(port_of({"SENTINEL", "master", "main"}, 5), master_->port()) << "the failover is over";
}

TEST_F(RedisSentinelTest, ASentinelThatDoesNotAnswerTakesNoTimeOfCalls) {
  const auto right = StartSentinel(master_->port());
  const auto frozen = StartSentinel(master_->port());
  RedisOptions options = OptionsOf({right.get(), frozen.get()});
  options.connect_timeout = absl::Seconds(4);
  RedisTopology topology(options);
  ASSERT_TRUE(topology.ServerOf(0).ok());
  frozen->process().Freeze();
  std::atomic<bool> refreshed{false};
  std::thread inspection([&] {
    pthread_setname_np(pthread_self(), "inspection");
    topology.Refresh();
    refreshed = true;
  });
  absl::Duration longest;
  while (!refreshed) {
    topology.Suspect();
    const auto began = std::chrono::steady_clock::now();
    EXPECT_TRUE(topology.ServerOf(0).ok());
    longest = std::max(longest, absl::FromChrono(std::chrono::steady_clock::now() - began));
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(RedisTopology::kMinRefresh / 2));
  }
  inspection.join();
  EXPECT_LT(longest, options.connect_timeout / 2);
  frozen->process().Signal(SIGCONT);
}

TEST_F(RedisSentinelTest, SentinelsNameTheNextMaster) {
  Replicate();
  const auto sentinel = StartSentinel(master_->port(),
                                      "sentinel down-after-milliseconds main 500\n"
                                      "sentinel failover-timeout main 5000\n");
  RedisOptions options = OptionsOf({sentinel.get()});
  options.wait_replicas = 1;
  options.connect_timeout = absl::Milliseconds(500);
  ASSERT_TRUE(Eventually([&] { return ReplicasKnownTo(*sentinel) == 1; }));
  const auto store = OpenStore(options);
  std::vector<ReserveOp> done;
  for (const ReserveOp& op : OpsFor("failover-", 50)) {
    const auto verdict = Reserve(*store, op);
    if (!verdict.ok()) continue;
    if (Complete(*store, op, std::get<Reserved>(*verdict).token).ok()) done.push_back(op);
  }
  ASSERT_FALSE(done.empty());
  master_->Kill();
  // Its successor has no replica to confirm; what was acknowledged is there all the same.
  ASSERT_TRUE(Eventually([&] { return Get(*store, done.front()).ok(); }));
  for (const ReserveOp& op : done) {
    const auto record = Get(*store, op);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->state, RecordState::kCompleted);
  }
  EXPECT_EQ(ReasonOf(Reserve(*store, OpFor("new")).status()), Reason::kStoreUnavailable);
}

}  // namespace
}  // namespace idempotency::internal
