#include "interceptors/server/call/call_canceller.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace idempotency::internal {
namespace {

TEST(CallCanceller, CancelsOnceAndOnlyWhileTheHandlerRuns) {
  CallCanceller canceller;
  int cancelled = 0;
  canceller.Cancel();
  EXPECT_EQ(cancelled, 0);
  canceller.Begin([&] { ++cancelled; });
  canceller.Cancel();
  canceller.Cancel();
  EXPECT_EQ(cancelled, 1);
  EXPECT_TRUE(canceller.End([] { FAIL(); }));
}

TEST(CallCanceller, AnsweredCallIsNotCancelled) {
  CallCanceller canceller;
  int cancelled = 0;
  canceller.Begin([&] { ++cancelled; });
  EXPECT_TRUE(canceller.End([] { FAIL(); }));
  canceller.Cancel();
  EXPECT_EQ(cancelled, 0);
}

// As with a handler that answers because it is cancelled: on the same thread, or on another one
// that must not wait.
TEST(CallCanceller, AnswerDuringTheCancellationContinuesAfterIt) {
  CallCanceller canceller;
  bool inside = false;
  bool ended_inside = false;
  bool ended = false;
  canceller.Begin([&] {
    inside = true;
    std::thread answering([&] {
      EXPECT_FALSE(canceller.End([&] {
        ended = true;
        ended_inside = inside;
      }));
    });
    answering.join();
    EXPECT_FALSE(ended);
    inside = false;
  });
  canceller.Cancel();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(ended_inside);
}

// The cancelled objects are destroyed with the call: never used afterwards.
TEST(CallCanceller, NeverUsesADestroyedCall) {
  for (int i = 0; i < 2000; ++i) {
    const auto canceller = std::make_shared<CallCanceller>();
    auto call = std::make_unique<int>(0);
    canceller->Begin([&call] { ++*call; });
    std::thread cancelling([canceller] { canceller->Cancel(); });
    const auto then = [&call] { call.reset(); };
    if (canceller->End(then)) then();
    cancelling.join();
    EXPECT_EQ(call, nullptr);
  }
}

}  // namespace
}  // namespace idempotency::internal
