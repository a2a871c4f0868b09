#include "postgres/socket_watchdog.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>

namespace idempotency::internal {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

SocketWatchdog::TimePoint In(std::chrono::steady_clock::duration duration) {
  return std::chrono::steady_clock::now() + duration;
}

class SocketWatchdogTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()), 0); }
  void TearDown() override {
    for (const int end : ends_) close(end);
  }

  // Blocks until data can be read, for a minute at most.
  bool AwaitEnd(int socket) {
    pollfd readable = {socket, POLLIN, 0};
    char byte = 0;
    return poll(&readable, 1, 60'000) == 1 && read(socket, &byte, 1) == 0;
  }

  std::array<int, 2> ends_{};
  SocketWatchdog watchdog_;
};

TEST_F(SocketWatchdogTest, EndsACallThatIsLate) {
  const SocketWatchdog::Target target(ends_[0]);
  const SocketWatchdog::Watch watch(watchdog_, target, In(milliseconds(20)));
  EXPECT_TRUE(AwaitEnd(ends_[0]));
  EXPECT_TRUE(watch.expired());
}

TEST_F(SocketWatchdogTest, LeavesACallAloneThatEndedInTime) {
  std::array<int, 2> other{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, other.data()), 0);
  {
    const SocketWatchdog::Target target(ends_[0]);
    {
      const SocketWatchdog::Watch in_time(watchdog_, target, In(milliseconds(20)));
      EXPECT_FALSE(in_time.expired());
    }
    // Due later, so the watchdog would have acted on the first one.
    const SocketWatchdog::Target later(other[0]);
    const SocketWatchdog::Watch late(watchdog_, later, In(milliseconds(40)));
    EXPECT_TRUE(AwaitEnd(other[0]));
  }
  ASSERT_EQ(write(ends_[1], "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(ends_[0], &byte, 1), 1) << "the socket still works";
  for (const int end : other) close(end);
}

TEST_F(SocketWatchdogTest, ACallHasTheTimeThatItWasGivenLast) {
  const SocketWatchdog::Target target(ends_[0]);
  SocketWatchdog::Watch renewed(watchdog_, target, In(milliseconds(20)));
  renewed.Renew(In(hours(1)));
  // Due later than it was, so the watchdog would have acted on it.
  const SocketWatchdog::Target other(ends_[1]);
  const SocketWatchdog::Watch late(watchdog_, other, In(milliseconds(40)));
  EXPECT_TRUE(AwaitEnd(ends_[1]));
  EXPECT_FALSE(renewed.expired());
}

TEST_F(SocketWatchdogTest, WakesForACallThatIsDueBeforeTheOthers) {
  const SocketWatchdog::Target patient(ends_[0]);
  const SocketWatchdog::Target hasty(ends_[1]);
  const SocketWatchdog::Watch long_call(watchdog_, patient, In(hours(1)));
  const SocketWatchdog::Watch short_call(watchdog_, hasty, In(milliseconds(20)));
  EXPECT_TRUE(AwaitEnd(ends_[1]));
  EXPECT_TRUE(short_call.expired());
  EXPECT_FALSE(long_call.expired());
}

// A library that loses its connection closes the socket, and its number is free for another.
TEST_F(SocketWatchdogTest, NeverHitsAnotherSocketOfTheSameNumber) {
  std::array<int, 2> lost{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, lost.data()), 0);
  const SocketWatchdog::Target target(lost[0]);
  const SocketWatchdog::Watch watch(watchdog_, target, In(milliseconds(20)));
  ASSERT_EQ(dup2(ends_[0], lost[0]), lost[0]);
  EXPECT_TRUE(AwaitEnd(lost[1])) << "the peer of the socket that was watched";
  ASSERT_EQ(write(ends_[1], "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(lost[0], &byte, 1), 1) << "the socket that took its number";
  for (const int end : lost) close(end);
}

}  // namespace
}  // namespace idempotency::internal
