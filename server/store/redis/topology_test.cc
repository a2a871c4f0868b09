// Which servers the topology names, and how long a caller waits for it.
#include "server/store/redis/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/store/redis/options.h"
#include "tests/support/held_port.h"
#include "tests/support/redis_process.h"

namespace idempotency::internal {
namespace {

using testing::HeldPort;
using testing::RedisProcess;
using testing::RedisProcessOptions;

absl::Duration TimeOf(const std::function<void()>& call) {
  const auto began = std::chrono::steady_clock::now();
  call();
  return absl::FromChrono(std::chrono::steady_clock::now() - began);
}

// Three Sentinels, of a master that is not needed.
class SilentSentinelsTest : public ::testing::Test {
 protected:
  SilentSentinelsTest() {
    RedisProcessOptions watching;
    watching.sentinel_configuration = "sentinel monitor main 127.0.0.1 1 1\n";
    for (int i = 0; i < 3; ++i) {
      sentinels_.push_back(RedisProcess::Create(watching).value());
      options_.addresses.push_back(sentinels_.back()->address());
    }
    options_.mode = RedisOptions::Mode::kSentinel;
    options_.master = "main";
    options_.connect_timeout = absl::Seconds(2);
  }

  void Freeze() {
    for (const auto& sentinel : sentinels_) sentinel->process().Freeze();
  }
  void Thaw() {
    for (const auto& sentinel : sentinels_) sentinel->process().Signal(SIGCONT);
  }

  std::vector<std::unique_ptr<RedisProcess>> sentinels_;
  RedisOptions options_;
};

TEST_F(SilentSentinelsTest, NoCallWaitsForThemWhileAMasterIsKnown) {
  RedisTopology topology(options_);
  const auto known = topology.ServerOf(0);
  ASSERT_TRUE(known.ok()) << known.status();
  Freeze();
  topology.Refresh();
  // Queries are RedisTopology::kMinRefresh apart.
  const auto until =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(5 * RedisTopology::kMinRefresh);
  absl::Duration longest;
  while (std::chrono::steady_clock::now() < until) {
    topology.Suspect();
    longest = std::max(longest, TimeOf([&] { EXPECT_EQ(topology.ServerOf(0).value(), *known); }));
  }
  EXPECT_LT(longest, options_.connect_timeout);
  // The inspection queries them all the same, and finds the next master.
  Thaw();
  for (const auto& sentinel : sentinels_) {
    sentinel->Must({"SENTINEL", "REMOVE", "main"});
    sentinel->Must({"SENTINEL", "MONITOR", "main", "127.0.0.1", "2", "1"});
  }
  topology.Refresh();
  EXPECT_EQ(topology.ServerOf(0).value().port, 2);
}

TEST_F(SilentSentinelsTest, TheFirstCallWaitsForThem) {
  options_.addresses.resize(1);
  options_.connect_timeout = absl::Seconds(4);
  RedisTopology topology(options_);
  Freeze();
  EXPECT_FALSE(topology.ServerOf(0).ok());
  Thaw();
  // It is paused for longer than this takes, and the only one that may know a master.
  EXPECT_TRUE(testing::Eventually([&] { return topology.ServerOf(0).ok(); }));
}

// Each line calls the topology from another thread, and waits for it a while.
class CallingSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit CallingSink(std::function<void()> call) : call_(std::move(call)) {}
  int lines() const { return lines_; }
  int stopped() const { return stopped_; }

 private:
  void sink_it_(const spdlog::details::log_msg& /*line*/) override {
    ++lines_;
    calls_.push_back(std::async(std::launch::async, [this] {
      pthread_setname_np(pthread_self(), "call");
      call_();
    }));
    if (calls_.back().wait_for(std::chrono::seconds(5)) != std::future_status::ready) ++stopped_;
  }
  void flush_() override {}

  const std::function<void()> call_;
  int lines_ = 0;
  int stopped_ = 0;
  std::vector<std::future<void>> calls_;
};

// A pipe that is full, for example.
TEST(RedisTopologyTest, ALogThatBlocksStopsNoOtherCaller) {
  const HeldPort nobody;
  RedisOptions options;
  options.mode = RedisOptions::Mode::kSentinel;
  options.master = "main";
  options.addresses = {{"127.0.0.1", nobody.number()}};
  const auto before = spdlog::default_logger();
  const auto expect_free = [&](const std::function<void(RedisTopology&)>& log) {
    RedisTopology topology(options);
    const auto sink = std::make_shared<CallingSink>([&topology] {
      topology.NoteReached({"127.0.0.1", 2});
    });
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("calling", sink));
    log(topology);
    spdlog::set_default_logger(before);
    EXPECT_EQ(sink->lines(), 1);
    EXPECT_EQ(sink->stopped(), 0);
  };
  {
    SCOPED_TRACE("the servers are not known to a call");
    expect_free([](RedisTopology& topology) { EXPECT_FALSE(topology.ServerOf(0).ok()); });
  }
  {
    SCOPED_TRACE("the servers are not known to an inspection");
    expect_free([](RedisTopology& topology) { topology.Refresh(); });
  }
  {
    SCOPED_TRACE("a server lost its data");
    expect_free([](RedisTopology& topology) {
      topology.NoteLost({"127.0.0.1", 1}, absl::FailedPreconditionError("it lost its data"));
    });
  }
}

}  // namespace
}  // namespace idempotency::internal
