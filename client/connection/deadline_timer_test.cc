#include "client/connection/deadline_timer.h"

#include <gtest/gtest.h>

#include <vector>

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = DeadlineTimer::Time;

Time In(std::chrono::steady_clock::duration wait) {
  return std::chrono::steady_clock::now() + wait;
}

// Records the time at which it fired.
class Bell {
 public:
  DeadlineTimer::OnTime OnTime() {
    return [this] {
      MutexLock lock(mutex_);
      rings_.push_back(std::chrono::steady_clock::now());
      changed_.NotifyAll();
      return rings_.size() < again_at_.size() + 1 ? again_at_[rings_.size() - 1] : Time::max();
    };
  }
  void ThenAt(Time when) {
    MutexLock lock(mutex_);
    again_at_.push_back(when);
  }
  // All that there are after 10 s.
  std::vector<Time> Wait(std::size_t count) {
    MutexLock lock(mutex_);
    const auto deadline = In(seconds(10));
    while (rings_.size() < count && changed_.WaitUntil(lock, deadline)) {
    }
    return rings_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Time> rings_ ABSL_GUARDED_BY(mutex_);
  std::vector<Time> again_at_ ABSL_GUARDED_BY(mutex_);
};

TEST(DeadlineTimerTest, FiresAtTheEarliestTimeSet) {
  Bell bell;
  DeadlineTimer alarm("test-alarm", bell.OnTime());
  const Time early = In(milliseconds(30));
  alarm.NoLaterThan(In(seconds(60)));
  alarm.NoLaterThan(early);
  alarm.NoLaterThan(In(seconds(30)));
  const auto rings = bell.Wait(1);
  ASSERT_EQ(rings.size(), 1u);
  EXPECT_GE(rings[0], early);
  EXPECT_LT(rings[0], early + seconds(5));
}

TEST(DeadlineTimerTest, FiresAgainWhenItIsSetAgain) {
  Bell bell;
  const Time again = In(milliseconds(40));
  bell.ThenAt(again);
  DeadlineTimer alarm("test-alarm", bell.OnTime());
  alarm.NoLaterThan(In(milliseconds(10)));
  const auto rings = bell.Wait(2);
  ASSERT_EQ(rings.size(), 2u);
  EXPECT_GE(rings[1], again);
}

TEST(DeadlineTimerTest, StopsWithoutFiring) {
  Bell bell;
  {
    DeadlineTimer alarm("test-alarm", bell.OnTime());
    alarm.NoLaterThan(In(seconds(60)));
  }
  EXPECT_TRUE(bell.Wait(0).empty());
}

}  // namespace
}  // namespace idempotency::internal
