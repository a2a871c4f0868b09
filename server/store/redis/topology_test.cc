// Which servers the topology names, and how long a caller waits for it.
#include "server/store/redis/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "server/store/redis/options.h"
#include "tests/support/redis_process.h"

namespace idempotency::internal {
namespace {

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

}  // namespace
}  // namespace idempotency::internal
