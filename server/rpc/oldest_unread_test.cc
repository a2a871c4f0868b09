#include "server/rpc/oldest_unread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kPool = 1000;

class OldestUnreadTest : public ::testing::Test {
 protected:
  // Sessions are numbered from 0; the first is the youngest.
  void Add(std::size_t bytes, HostAnswers* host = nullptr) {
    const auto place = static_cast<std::uint64_t>(all_.size());
    // The test keeps it.
    all_.push_back({place, SteadyTime() - std::chrono::seconds(place), bytes,
                    std::shared_ptr<const HostAnswers>(std::shared_ptr<void>(), host)});
    if (host != nullptr) *host += bytes;
  }
  std::vector<std::uint64_t> Places(std::size_t excess) const {
    std::vector<std::uint64_t> places;
    for (const UnreadAnswers& unread : OldestUnread(all_, excess, kPool)) {
      places.push_back(unread.place);
    }
    return places;
  }

  std::vector<UnreadAnswers> all_;
};

TEST_F(OldestUnreadTest, AreEndedUntilTheExcessIsReleased) {
  for (int i = 0; i < 4; ++i) Add(10);
  EXPECT_THAT(Places(0), IsEmpty());
  EXPECT_THAT(Places(1), ElementsAre(3));
  EXPECT_THAT(Places(10), ElementsAre(3));
  EXPECT_THAT(Places(11), ElementsAre(3, 2));
  EXPECT_THAT(Places(1000), ElementsAre(3, 2, 1, 0));
}

TEST_F(OldestUnreadTest, AHostWithMoreThanHalfKeepsAQuarter) {
  HostAnswers host{0};
  HostAnswers other{0};
  Add(250, &host);
  Add(125, &host);
  Add(200, &other);
  Add(125, &host);
  EXPECT_THAT(Places(0), IsEmpty()) << "half";
  Add(100, &other);
  Add(1, &host);
  EXPECT_THAT(Places(0), ElementsAre(5, 3, 1)) << "the other host has its own";
}

TEST_F(OldestUnreadTest, OfEqualOnesTheFirstIsEnded) {
  for (std::uint64_t place = 0; place < 100; ++place) {
    all_.push_back({place, SteadyTime(), 1, nullptr});
  }
  EXPECT_THAT(Places(3), ElementsAre(0, 1, 2));
}

// As those are that wait for the end of a write and can be ended no further.
TEST_F(OldestUnreadTest, AHostsExcessIncludesWhatCannotBeReleased) {
  HostAnswers host{501};
  Add(10, &host);
  EXPECT_THAT(Places(0), ElementsAre(0));
}

}  // namespace
}  // namespace idempotency::internal
