// When a session reads: at once while answers are owed, and otherwise behind its next write.
#include <gtest/gtest.h>

#include <chrono>

#include "absl/time/time.h"

#include "client/testing/session_connection_fixture.h"

namespace idempotency::internal {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::In;
using testing::kBroken;
using testing::Limits;

class SessionReadsTest : public testing::SessionConnectionTest {
 protected:
  // A session whose one operation was answered: nothing is owed.
  void OpenIdle(absl::Duration max_read_delay) {
    SessionConnectionOptions options;
    options.max_read_delay = max_read_delay;
    Open(options);
    Reserve("1");
    stream().ServerSends(Limits(100, 1 << 20));
    AnswerId(stream(), 1);
    ASSERT_EQ(answers_.Await(1).size(), 1u);
  }
};

TEST_F(SessionReadsTest, AnIdleStreamIsReadBehindTheNextWrite) {
  OpenIdle(absl::Hours(1));
  EXPECT_FALSE(stream().reading());
  stream().HoldWrites();
  Reserve("2");
  // Before the write has ended: the answer may come first.
  EXPECT_TRUE(stream().reading());
  ASSERT_EQ(stream().frames().size(), 2u);
  AnswerId(stream(), 2);
  EXPECT_EQ(answers_.Await(2).size(), 2u);
  stream().ReleaseWrites();
  Settle();
  EXPECT_FALSE(stream().reading());
}

TEST_F(SessionReadsTest, AStreamThatOwesAnAnswerIsReadAtOnce) {
  OpenIdle(absl::Hours(1));
  Reserve("2");
  Reserve("3");
  AnswerId(stream(), 2);
  EXPECT_TRUE(stream().reading());
  AnswerId(stream(), 3);
  EXPECT_FALSE(stream().reading());
}

TEST_F(SessionReadsTest, AStreamThatOwesAnAbandonedAnswerIsReadAtOnce) {
  OpenIdle(absl::Hours(1));
  Reserve("2", In(milliseconds(20)));
  Reserve("3");
  ASSERT_EQ(answers_.Await(2).size(), 2u);
  AnswerId(stream(), 3);
  EXPECT_TRUE(stream().reading());
}

TEST_F(SessionReadsTest, AnOperationThatACallbackRequestsIsWrittenBeforeTheRead) {
  SessionConnectionOptions options;
  options.max_read_delay = absl::Hours(1);
  Open(options);
  session_->Reserve(testing::RequestWithKey("1"), In(hours(1)),
                    [this](const testing::Reserved&) { Reserve("2"); });
  stream().ServerSends(Limits(100, 1 << 20));
  AnswerId(stream(), 1);
  ASSERT_EQ(stream().frames().size(), 2u);
  EXPECT_TRUE(stream().reading());
}

TEST_F(SessionReadsTest, AnIdleStreamIsReadAfterTheDelay) {
  OpenIdle(absl::Milliseconds(20));
  EXPECT_TRUE(stream().AwaitRead());
  EXPECT_EQ(stream().frames().size(), 1u);
}

TEST_F(SessionReadsTest, AnIdleStreamThatHasEndedLosesNoOperation) {
  OpenIdle(absl::Hours(1));
  stream().End(kBroken);
  Settle();
  Reserve("2");
  Settle();
  ASSERT_EQ(streams_.count(), 2u);
  stream(1).ServerSends(Limits(100, 1 << 20));
  AnswerId(stream(1), 2);
  const auto answers = answers_.Await(2);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_TRUE(answers[1].ok()) << answers[1].status();
}

TEST_F(SessionReadsTest, AFrameThatArrivedOnAnIdleStreamIsReadBeforeItsEnd) {
  OpenIdle(absl::Hours(1));
  v1::SessionResponse draining;
  draining.set_draining(true);
  stream().ServerSends(draining);
  Settle();
  EXPECT_FALSE(stream().half_closed());
  Reserve("2");
  Settle();
  AnswerId(stream(), 2);
  EXPECT_EQ(answers_.Await(2).size(), 2u);
  EXPECT_TRUE(stream().half_closed());
  EXPECT_TRUE(stream().reading());
}

TEST_F(SessionReadsTest, AnIdleSessionIsDestroyedAtOnce) {
  OpenIdle(absl::Hours(1));
  session_.reset();
  EXPECT_TRUE(stream().cancelled());
}

}  // namespace
}  // namespace idempotency::internal
