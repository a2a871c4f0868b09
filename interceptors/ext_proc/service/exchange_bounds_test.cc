#include "interceptors/ext_proc/service/exchange_bounds.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "core/exchange_limits.h"
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

using Held = ExchangeBounds::Held;

Held Request(const std::string& scope, std::size_t bytes) {
  return {scope, Held::Kind::kRequest, bytes};
}
Held Reply(const std::string& scope, std::size_t bytes) {
  return {scope, Held::Kind::kReply, bytes};
}

TEST(ExchangeBoundsTest, MostBesideIsWhatAScopeAloneMayTake) {
  NoEvents events;
  ExchangeBounds bounds({/*exchanges=*/2, /*bytes=*/400}, events);
  const Held body = Request("a", 30);
  bounds.Hold({}, body);
  EXPECT_EQ(bounds.MostBeside(body), 70U);
  EXPECT_FALSE(bounds.TryShare(Request("a", 71)).has_value());
  EXPECT_TRUE(bounds.TryShare(Request("a", 70)).has_value());
  EXPECT_EQ(bounds.MostBeside(Request("a", 100)), 0U);
  EXPECT_EQ(bounds.MostBeside(Request("a", 101)), 0U);
}

TEST(ExchangeBoundsTest, BoundsNumberAndBytes) {
  NoEvents events;
  ExchangeBounds bounds({/*exchanges=*/2, /*bytes=*/200}, events);
  EXPECT_TRUE(bounds.Enter());
  EXPECT_TRUE(bounds.Enter());
  EXPECT_FALSE(bounds.Enter());
  EXPECT_TRUE(bounds.Hold({}, Request("a", 100)));
  EXPECT_FALSE(bounds.Hold({}, Request("b", 1)));
  EXPECT_EQ(events.bytes_, 101U);
  // Less is always accepted.
  EXPECT_TRUE(bounds.Hold(Request("a", 100), Request("a", 99)));
  bounds.Leave(Request("a", 99));
  bounds.Leave(Request("b", 1));
  EXPECT_EQ(events.exchanges_, 0U);
  EXPECT_EQ(events.bytes_, 0U);
  EXPECT_TRUE(bounds.Enter());
}

TEST(ExchangeBoundsTest, AShareIsReturned) {
  NoEvents events;
  ExchangeBounds bounds({/*exchanges=*/1, /*bytes=*/200}, events);
  {
    const auto share = bounds.TryShare(Request("a", 60));
    EXPECT_TRUE(share.has_value());
    EXPECT_EQ(events.bytes_, 60U);
    EXPECT_FALSE(bounds.TryShare(Request("a", 1)).has_value());
    EXPECT_TRUE(bounds.TryShare(Request("a", 0)).has_value());
    EXPECT_EQ(events.bytes_, 60U);
  }
  EXPECT_EQ(events.bytes_, 0U);
}

TEST(ExchangeBoundsTest, AScopesShareHasRoomForTheFieldsOfTheLargestRequest) {
  NoEvents events;
  ExchangeBounds bounds({}, events);
  EXPECT_TRUE(bounds.Hold({}, Request("a", limits::kMaxExchangeRequestBytes)));
  EXPECT_TRUE(bounds
                  .TryShare(Request("a", ExchangeBounds::kMaxFieldBytesPerByte *
                                             limits::kMaxExchangeRequestBytes))
                  .has_value());
}

TEST(ExchangeBoundsTest, AScopeTakesNoMoreThanItLeavesToOthers) {
  for (const Held::Kind kind : {Held::Kind::kRequest, Held::Kind::kReply}) {
    NoEvents events;
    ExchangeBounds bounds({/*exchanges=*/10, /*bytes=*/200}, events);
    EXPECT_TRUE(bounds.Hold({}, {"a", kind, 25}));
    EXPECT_TRUE(bounds.Hold({}, {"a", kind, 25}));
    EXPECT_FALSE(bounds.Hold({}, {"a", kind, 1}));
    bounds.Hold({"a", kind, 1}, {"a", kind, 0});
    // Nor by an exchange that grows.
    EXPECT_FALSE(bounds.Hold({"a", kind, 25}, {"a", kind, 26}));
    bounds.Hold({"a", kind, 26}, {"a", kind, 25});
    EXPECT_TRUE(bounds.Hold({}, {"b", kind, 25}));
    EXPECT_FALSE(bounds.Hold({}, {"b", kind, 1}));
    bounds.Hold({"b", kind, 1}, {"b", kind, 0});
    EXPECT_TRUE(bounds.Hold({}, {"c", kind, 25}));
    // One may take the bytes that another has given back.
    bounds.Hold({"a", kind, 25}, {});
    bounds.Hold({"a", kind, 25}, {});
    EXPECT_TRUE(bounds.Hold({}, {"d", kind, 50}));
  }
}

TEST(ExchangeBoundsTest, AScopeHasNoMoreExchangesThanItLeavesToOthers) {
  NoEvents events;
  // One scope leaves 2, for 8 each.
  ExchangeBounds bounds({/*exchanges=*/18, /*bytes=*/200}, events);
  std::vector<ExchangeBounds::Place> places;
  const auto try_enter = [&](const std::string& scope) {
    EXPECT_TRUE(bounds.Enter());
    std::optional<ExchangeBounds::Place> place = bounds.TryEnterScope(scope);
    if (!place.has_value()) {
      bounds.Leave({});
      return false;
    }
    places.push_back(*std::move(place));
    return true;
  };
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(try_enter("a")) << i;
  EXPECT_FALSE(try_enter("a"));
  EXPECT_TRUE(try_enter("b"));
  EXPECT_FALSE(try_enter("a"));
  EXPECT_FALSE(try_enter("b"));
  EXPECT_TRUE(try_enter("c"));
  // One may take the bytes that another has given back.
  for (std::size_t i = places.size(); i > 0; --i) bounds.Leave({});
  places.clear();
  EXPECT_TRUE(try_enter("b"));
  EXPECT_TRUE(try_enter("b"));
}

// One that is alone uses nearly all of them.
TEST(ExchangeBoundsTest, ScopesLeaveAPartOfTheExchangesAndShareTheRest) {
  for (const std::size_t scopes : {1, 2, 5}) {
    NoEvents events;
    ExchangeBounds bounds({}, events);
    std::vector<ExchangeBounds::Place> places;
    for (bool entered = true; entered;) {
      entered = false;
      for (std::size_t scope = 0; scope < scopes; ++scope) {
        ASSERT_TRUE(bounds.Enter());
        auto place = bounds.TryEnterScope(std::to_string(scope));
        if (place.has_value()) {
          entered = true;
          places.push_back(*std::move(place));
        } else {
          bounds.Leave({});
        }
      }
    }
    const std::size_t left = limits::kMaxExchanges - places.size();
    EXPECT_NEAR(static_cast<double>(left),
                static_cast<double>(limits::kMaxExchanges) / (1.0 + 8.0 * scopes), scopes)
        << scopes;
  }
}

TEST(ExchangeBoundsTest, ChangedLimitsApplyToWhatComes) {
  NoEvents events;
  ExchangeBounds bounds({/*exchanges=*/1, /*bytes=*/200}, events);
  EXPECT_TRUE(bounds.Enter());
  EXPECT_FALSE(bounds.Enter());
  EXPECT_TRUE(bounds.Hold({}, Request("a", 100)));
  bounds.SetLimits({/*exchanges=*/2, /*bytes=*/100});
  EXPECT_TRUE(bounds.Enter());
  EXPECT_FALSE(bounds.Enter());
  EXPECT_FALSE(bounds.Hold({}, Request("b", 1)));
  EXPECT_TRUE(bounds.Hold(Request("b", 1), {}));
  // Nothing is taken back.
  EXPECT_TRUE(bounds.Hold(Request("a", 100), Request("a", 100)));
  bounds.SetLimits({/*exchanges=*/2, /*bytes=*/400});
  EXPECT_TRUE(bounds.Hold({}, Request("b", 50)));
}

TEST(ExchangeBoundsTest, RequestsLeaveRepliesTheirHalf) {
  NoEvents events;
  ExchangeBounds bounds({/*exchanges=*/10, /*bytes=*/200}, events);
  EXPECT_TRUE(bounds.Hold({}, Request("a", 100)));
  EXPECT_FALSE(bounds.Hold({}, Request("b", 100)));
  EXPECT_TRUE(bounds.Hold({}, Reply("c", 100)));
  // One that becomes a reply must fit there.
  EXPECT_FALSE(bounds.Hold(Request("a", 100), Reply("a", 1)));
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
