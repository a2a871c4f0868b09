#include "server/store/postgres/records/unreadable_places.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/records/uuid_number.h"

namespace idempotency::internal {
namespace {

constexpr absl::Duration kPause = absl::Minutes(10);

RecordPlace Place(const std::string& scope, std::size_t id) { return {scope, UuidOf(id)}; }

class UnreadablePlacesTest : public ::testing::Test {
 protected:
  // "scope/id"
  std::string After(const std::string& scope, std::size_t id) const {
    const std::optional<RecordPlace> found = places_.FirstAfter(payments_, Place(scope, id));
    if (!found) return "";
    return absl::StrCat(found->scope, "/", absl::Uint128Low64(NumberOf(found->id)));
  }

  ManualClock clock_;
  UnreadablePlaces places_{kPause, clock_};
  const WalkRange payments_{WalkRange::Order::kScopes, "payments"};
};

TEST_F(UnreadablePlacesTest, AreFoundInTheOrderOfTheWalk) {
  EXPECT_EQ(After("", 0), "");
  places_.Add(payments_, Place("b", 1));
  places_.Add(payments_, Place("a", 7));
  places_.Add(payments_, Place("\xC3\xA9", 3));
  EXPECT_EQ(After("", 0), "a/7");
  EXPECT_EQ(After("a", 6), "a/7");
  EXPECT_EQ(After("a", 7), "b/1");
  EXPECT_EQ(After("z", 0), "\xC3\xA9/3");
  EXPECT_EQ(After("\xC3\xA9", 3), "");
}

TEST_F(UnreadablePlacesTest, AreThoseOfTheRange) {
  places_.Add({WalkRange::Order::kScopes, "orders"}, Place("a", 1));
  places_.Add({WalkRange::Order::kScopes, "refunds"}, Place("a", 1));
  places_.Add({WalkRange::Order::kUnknown, "payments"}, Place("", 1));
  EXPECT_EQ(After("", 0), "");
}

TEST_F(UnreadablePlacesTest, AreLookedAtAgainAfterThePause) {
  EXPECT_TRUE(places_.IsDue(payments_, Place("a", 1))) << "not known";
  places_.Add(payments_, Place("a", 1));
  EXPECT_FALSE(places_.IsDue(payments_, Place("a", 1)));
  EXPECT_TRUE(places_.IsDue(payments_, Place("a", 2)));
  clock_.Advance(kPause - absl::Microseconds(1));
  EXPECT_FALSE(places_.IsDue(payments_, Place("a", 1)));
  clock_.Advance(absl::Microseconds(1));
  EXPECT_TRUE(places_.IsDue(payments_, Place("a", 1)));
  EXPECT_EQ(After("", 0), "a/1") << "still known";
  places_.Add(payments_, Place("a", 1));
  EXPECT_FALSE(places_.IsDue(payments_, Place("a", 1)));
}

TEST_F(UnreadablePlacesTest, AreForgottenOnceTheyCanBeRead) {
  places_.Add(payments_, Place("a", 1));
  places_.Add(payments_, Place("a", 2));
  places_.Remove(payments_, Place("a", 1));
  places_.Remove(payments_, Place("a", 3));
  EXPECT_EQ(After("", 0), "a/2");
}

TEST_F(UnreadablePlacesTest, HaveABound) {
  for (std::size_t i = 1; i <= UnreadablePlaces::kMaxPlaces; ++i) {
    places_.Add(payments_, Place("a", i));
  }
  places_.Add(payments_, Place("b", 1));
  EXPECT_EQ(After("b", 0), "");
  clock_.Advance(kPause);
  places_.Add(payments_, Place("a", 5));
  EXPECT_EQ(After("a", 1), "a/2") << "one that is known needs no room";
  places_.Add(payments_, Place("b", 1));
  EXPECT_EQ(After("", 0), "a/5") << "those that no walk looked at make room";
  EXPECT_EQ(After("a", 5), "b/1");
}

}  // namespace
}  // namespace idempotency::internal
