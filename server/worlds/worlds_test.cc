#include "server/worlds/worlds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "server/store/testing/operations.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

// The reason of a refusal; nullopt for an answer.
template <typename Answer>
std::optional<Reason> RefusalOf(const absl::StatusOr<Answer>& answer) {
  return answer.ok() ? std::nullopt : ReasonOf(answer.status());
}

class WorldStoreTest : public ::testing::Test {
 protected:
  absl::StatusOr<Verdict> Reserve(std::string_view name) {
    ReserveOp op = ReserveNamed(name);
    op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
    return store_.Reserve({op})[0];
  }
  Uuid Granted(std::string_view name) { return std::get<Reserved>(*Reserve(name)).token; }

  WorldClock clock_;
  WorldStore store_{clock_, {/*records=*/2, /*bytes=*/std::size_t{10} * 1024}};
};

TEST_F(WorldStoreTest, RecordsAboveTheBoundAreRefusedAndOthersAreNot) {
  Granted("a");
  Granted("b");
  const std::vector<absl::StatusOr<Verdict>> answers =
      store_.Reserve({ReserveNamed("c"), ReserveNamed("a"), ReserveNamed("d")});
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(RefusalOf(answers[0]), Reason::kQuotaExceeded);
  EXPECT_THAT(answers[0].status().message(), HasSubstr("Reset"));
  ASSERT_TRUE(answers[1].ok()) << answers[1].status();
  EXPECT_TRUE(std::holds_alternative<InFlight>(*answers[1]));
  EXPECT_EQ(RefusalOf(answers[2]), Reason::kQuotaExceeded);
}

TEST_F(WorldStoreTest, BytesAboveTheBoundAreRefused) {
  const Uuid token = Granted("a");
  CompleteOp large = CompleteNamed("a", token);
  large.reply.bytes.assign(std::size_t{10} * 1024, 'x');
  EXPECT_EQ(RefusalOf(store_.Complete({large})[0]), Reason::kQuotaExceeded);
  ExtendOp extend = ExtendNamed("a", token);
  extend.checkpoint = std::string(std::size_t{10} * 1024, 'x');
  EXPECT_EQ(RefusalOf(store_.Extend({extend})[0]), Reason::kQuotaExceeded);
  EXPECT_TRUE(store_.Complete({CompleteNamed("a", token)})[0].ok());
}

TEST_F(WorldStoreTest, ResetForgetsRecordsAndMakesRoom) {
  Granted("a");
  Granted("b");
  store_.Reset();
  EXPECT_EQ(RefusalOf(store_.Get({GetNamed("a")})[0]), Reason::kRecordNotFound);
  Granted("a");
  Granted("c");
  EXPECT_EQ(RefusalOf(Reserve("d")), Reason::kQuotaExceeded);
}

TEST_F(WorldStoreTest, ItsClockEndsLeases) {
  Granted("a");
  ASSERT_TRUE(clock_.Advance(limits::kDefaultLease).ok());
  ASSERT_TRUE(store_.SweepAll().ok());
  EXPECT_EQ(store_.Get({GetNamed("a")})[0]->state, RecordState::kUnknown);
}

TEST(WorldClockTest, MovesForwardWithinItsBound) {
  WorldClock clock;
  const absl::Time before = clock.Now();
  ASSERT_TRUE(clock.Advance(absl::Hours(48)).ok());
  EXPECT_GE(clock.Now() - before, absl::Hours(48));
  EXPECT_FALSE(clock.Advance(absl::ZeroDuration()).ok());
  EXPECT_FALSE(clock.Advance(-absl::Seconds(1)).ok());
  EXPECT_FALSE(clock.Advance(WorldClock::kMaxAhead).ok());
  EXPECT_FALSE(clock.Advance(absl::InfiniteDuration()).ok());
  EXPECT_TRUE(clock.Advance(WorldClock::kMaxAhead - absl::Hours(48)).ok());
  clock.Reset();
  EXPECT_LT(clock.Now() - before, absl::Hours(1));
}

class WorldsTest : public ::testing::Test {
 protected:
  Observer nobody_;
  Worlds worlds_{nobody_, {/*worlds=*/2, {}}};
};

TEST_F(WorldsTest, ANameIsOneWorldAndTheirNumberIsBounded) {
  const auto first = worlds_.Named("a");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*worlds_.Named("a"), *first);
  EXPECT_NE(*worlds_.Named(""), *first);
  EXPECT_EQ(RefusalOf(worlds_.Named("b")), Reason::kQuotaExceeded);
  EXPECT_EQ(*worlds_.Named("a"), *first);
}

TEST_F(WorldsTest, RefusesWhatIsNoName) {
  for (const std::string& name : {std::string(Worlds::kMaxName + 1, 'a'), std::string("a b"),
                                  std::string("a\n"), std::string("\xc3\xa9")}) {
    EXPECT_EQ(RefusalOf(worlds_.Named(name)), Reason::kRequestInvalid) << name;
  }
  EXPECT_TRUE(worlds_.Named(std::string(Worlds::kMaxName, 'a')).ok());
}

TEST_F(WorldsTest, MakesNoWorldOnceItStops) {
  ASSERT_TRUE(worlds_.Named("a").ok());
  worlds_.StopWaiting();
  EXPECT_TRUE(worlds_.Named("a").ok());
  EXPECT_EQ(RefusalOf(worlds_.Named("b")), Reason::kStoreUnavailable);
}

TEST_F(WorldsTest, AWorldHasAClockOfItsOwn) {
  World& moved = **worlds_.Named("a");
  const absl::StatusOr<absl::Time> ahead = moved.AdvanceClock(absl::Hours(48));
  ASSERT_TRUE(ahead.ok());
  const absl::StatusOr<absl::Time> other =
      (*worlds_.Named(""))->AdvanceClock(absl::Microseconds(1));
  ASSERT_TRUE(other.ok());
  EXPECT_GT(*ahead - *other, absl::Hours(47));
}

}  // namespace
}  // namespace idempotency::internal
