#include "interceptors/ext_proc/service/exchange_bounds.h"

#include <chrono>
#include <string>

#include "gtest/gtest.h"

#include "interceptors/ext_proc/service/misconfigured_proxies.h"

namespace idempotency::internal {
namespace {

class NoEvents final : public ProcessorEvents {
 public:
  void Ended(ExchangeResult /*result*/) override {}
  void Misconfigured(absl::string_view /*what*/) override {}
  void Holds(std::size_t exchanges, std::size_t bytes) override {
    exchanges_ = exchanges;
    bytes_ = bytes;
  }

  std::size_t exchanges_ = 0;
  std::size_t bytes_ = 0;
};

TEST(ExchangeBoundsTest, BoundsNumberAndBytes) {
  NoEvents events;
  ExchangeBounds bounds({/*exchanges=*/2, /*bytes=*/100}, events);
  EXPECT_TRUE(bounds.Enter());
  EXPECT_TRUE(bounds.Enter());
  EXPECT_FALSE(bounds.Enter());
  EXPECT_TRUE(bounds.Hold(0, 100));
  EXPECT_FALSE(bounds.Hold(0, 1));
  // Less is always accepted.
  EXPECT_TRUE(bounds.Hold(100, 99));
  bounds.Leave(99);
  bounds.Leave(1);
  EXPECT_EQ(events.exchanges_, 0U);
  EXPECT_EQ(events.bytes_, 0U);
  EXPECT_TRUE(bounds.Enter());
}

TEST(MisconfiguredProxiesTest, AreRefusedForAWhile) {
  MisconfiguredProxies proxies;
  const MisconfiguredProxies::Time now{};
  proxies.Add("a", now);
  EXPECT_TRUE(proxies.Has("a", now));
  EXPECT_FALSE(proxies.Has("b", now));
  EXPECT_FALSE(proxies.Has("a", now + MisconfiguredProxies::kRefusal));
  for (std::size_t i = 0; i < 2 * MisconfiguredProxies::kMaxConnections; ++i) {
    proxies.Add("proxy " + std::to_string(i), now);
  }
  EXPECT_FALSE(
      proxies.Has("proxy " + std::to_string(2 * MisconfiguredProxies::kMaxConnections - 1), now));
  // Room is made when their time is over.
  proxies.Add("later", now + 2 * MisconfiguredProxies::kRefusal);
  EXPECT_TRUE(proxies.Has("later", now + 2 * MisconfiguredProxies::kRefusal));
}

}  // namespace
}  // namespace idempotency::internal
