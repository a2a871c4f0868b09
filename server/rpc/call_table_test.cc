#include "server/rpc/call_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "server/rpc/remote_address.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;

constexpr CallTable::Limits kLimits = {/*calls=*/4, /*refusals=*/3, /*per_peer=*/2};

class Refusals final : public Observer {
 public:
  void CallRefused(CallRefusal refusal) override { all.push_back(refusal); }
  std::vector<CallRefusal> all;
};

class CallTableTest : public ::testing::Test {
 protected:
  bool Takes(const std::string& peer) {
    absl::StatusOr<CallTable::Place> place = table_.Admit(peer);
    if (!place.ok()) return false;
    places_.push_back(*std::move(place));
    return true;
  }

  Refusals refusals_;
  CallTable table_{kLimits, &refusals_};
  std::vector<CallTable::Place> places_;
};

TEST_F(CallTableTest, AnAddressHasAShareThatOthersDoNotTake) {
  EXPECT_TRUE(Takes("ipv4:192.0.2.1:4000"));
  EXPECT_TRUE(Takes("ipv4:192.0.2.1:4001"));
  EXPECT_FALSE(Takes("ipv4:192.0.2.1:4002"));
  EXPECT_TRUE(Takes("ipv4:192.0.2.2:4000"));
  EXPECT_TRUE(Takes("ipv4:192.0.2.3:4000"));
  EXPECT_FALSE(Takes("ipv4:192.0.2.4:4000"));
  EXPECT_THAT(refusals_.all, ElementsAre(CallRefusal::kPeerLimit, CallRefusal::kLimit));
}

TEST_F(CallTableTest, AnEndedCallLeavesItsPlace) {
  ASSERT_TRUE(Takes("ipv4:192.0.2.1:4000"));
  ASSERT_TRUE(Takes("ipv4:192.0.2.1:4000"));
  ASSERT_FALSE(Takes("ipv4:192.0.2.1:4000"));
  places_.pop_back();
  EXPECT_TRUE(Takes("ipv4:192.0.2.1:4000"));
  places_.clear();
  EXPECT_EQ(table_.size(), 0);
}

TEST_F(CallTableTest, ARefusalTakesNoPlace) {
  ASSERT_TRUE(Takes("ipv4:192.0.2.1:4000"));
  ASSERT_TRUE(Takes("ipv4:192.0.2.1:4000"));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Takes("ipv4:192.0.2.1:4000"));
  EXPECT_EQ(table_.size(), 2);
}

TEST_F(CallTableTest, AHostHasSixtyFourBitsOfAnIpv6Address) {
  EXPECT_TRUE(Takes("ipv6:%5B2001:db8:0:1::1%5D:4000"));
  EXPECT_TRUE(Takes("ipv6:[2001:db8:0:1:ffff::2]:4000"));
  EXPECT_FALSE(Takes("ipv6:%5B2001:db8:0:1::3%5D:4000"));
  EXPECT_TRUE(Takes("ipv6:%5B2001:db8:0:2::1%5D:4000"));
}

TEST_F(CallTableTest, AMappedAddressIsThatOfIpv4) {
  EXPECT_TRUE(Takes("ipv6:%5B::ffff:192.0.2.1%5D:4000"));
  EXPECT_TRUE(Takes("ipv4:192.0.2.1:4000"));
  EXPECT_FALSE(Takes("ipv6:[::ffff:192.0.2.1]:4001"));
}

TEST_F(CallTableTest, ALinkLocalAddressCountsWithoutItsInterface) {
  EXPECT_TRUE(Takes("ipv6:%5Bfe80::1%25eth0%5D:4000"));
  EXPECT_TRUE(Takes("ipv6:%5Bfe80::1%25eth1%5D:4000"));
  EXPECT_FALSE(Takes("ipv6:%5Bfe80::1%5D:4000"));
}

TEST_F(CallTableTest, AUnixSocketHasTheWholeTable) {
  for (int i = 0; i < kLimits.calls; ++i) EXPECT_TRUE(Takes("unix:/run/idempotencyd.sock"));
  EXPECT_FALSE(Takes("unix:"));
  EXPECT_THAT(refusals_.all, ElementsAre(CallRefusal::kLimit));
}

TEST_F(CallTableTest, ARefusalIsOverloadWithADelay) {
  while (Takes("ipv4:192.0.2.1:4000")) {
  }
  const absl::Status refused = table_.Admit("ipv4:192.0.2.1:4000").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), Reason::kOverloaded);
  EXPECT_GT(DetailsOf(refused).retry_delay.value_or(absl::ZeroDuration()), absl::ZeroDuration());
}

TEST_F(CallTableTest, RefusalsHavePlacesOfTheirOwn) {
  while (Takes("unix:")) {
  }
  std::vector<CallTable::Place> refusals;
  for (int i = 0; i < kLimits.refusals; ++i) {
    std::optional<CallTable::Place> place = table_.AdmitRefusal("unix:");
    ASSERT_TRUE(place.has_value());
    refusals.push_back(*std::move(place));
  }
  EXPECT_FALSE(table_.AdmitRefusal("unix:").has_value());
  EXPECT_EQ(table_.size(), kLimits.calls);
  refusals.pop_back();
  EXPECT_TRUE(table_.AdmitRefusal("unix:").has_value());
  refusals.clear();
  EXPECT_EQ(table_.size(), kLimits.calls);
}

// Or callers of one address that do not read their refusals leave the others none.
TEST_F(CallTableTest, AnAddressHasHalfOfTheRefusals) {
  std::vector<CallTable::Place> refusals;
  for (int port = 4000; port < 4002; ++port) {
    std::optional<CallTable::Place> place =
        table_.AdmitRefusal(absl::StrCat("ipv4:192.0.2.1:", port));
    ASSERT_TRUE(place.has_value());
    refusals.push_back(*std::move(place));
  }
  EXPECT_FALSE(table_.AdmitRefusal("ipv4:192.0.2.1:4002").has_value());
  EXPECT_TRUE(table_.AdmitRefusal("ipv4:192.0.2.2:4000").has_value());
  EXPECT_TRUE(table_.Admit("ipv4:192.0.2.1:4002").ok()) << "calls have their own places";
  refusals.pop_back();
  EXPECT_TRUE(table_.AdmitRefusal("ipv4:192.0.2.1:4002").has_value());
}

// Or the rules on streams would take the calls of another listener for calls that no code has seen.
TEST_F(CallTableTest, TheCallsOfAHostAreThoseOfAllListeners) {
  const std::string host = HostOfPeer("ipv4:192.0.2.1:0");
  ASSERT_TRUE(Takes("ipv4:192.0.2.1:4000"));
  {
    CallTable other(kLimits);
    const absl::StatusOr<CallTable::Place> place = other.Admit("ipv4:192.0.2.1:4001");
    const absl::StatusOr<CallTable::Place> elsewhere = other.Admit("ipv4:192.0.2.2:4000");
    ASSERT_TRUE(place.ok());
    ASSERT_TRUE(elsewhere.ok());
    EXPECT_EQ(CallTable::AllOfHost(host), 2);
  }
  EXPECT_EQ(CallTable::AllOfHost(host), 1);
}

TEST_F(CallTableTest, APlaceMoves) {
  absl::StatusOr<CallTable::Place> place = table_.Admit("ipv4:192.0.2.1:4000");
  ASSERT_TRUE(place.ok());
  CallTable::Place moved = *std::move(place);
  EXPECT_EQ(table_.size(), 1);
  CallTable::Place assigned;
  assigned = std::move(moved);
  EXPECT_EQ(table_.size(), 1);
  assigned = CallTable::Place();
  EXPECT_EQ(table_.size(), 0);
}

TEST_F(CallTableTest, ThreadsTakeAndLeavePlaces) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int call = 0; call < 1000; ++call) {
        const absl::StatusOr<CallTable::Place> place = table_.Admit("unix:");
        ASSERT_TRUE(place.ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table_.size(), 0);
}

}  // namespace
}  // namespace idempotency::internal
