#include "client/connection/outstanding_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace idempotency::internal {
namespace {

// A call whose cancellation runs the test's function.
class FakeCall final : public OutstandingCalls::Call {
 public:
  explicit FakeCall(std::function<void(FakeCall*)> on_cancel) : on_cancel_(std::move(on_cancel)) {}
  ~FakeCall() override {
    if (on_destroy) on_destroy();
  }
  void Cancel() override { on_cancel_(this); }

  std::function<void()> on_destroy;

 private:
  const std::function<void(FakeCall*)> on_cancel_;
};

TEST(OutstandingCallsTest, NothingOutstandingReturnsAtOnce) {
  OutstandingCalls calls;
  calls.CancelAndWait();
  EXPECT_EQ(calls.size(), 0u);
}

TEST(OutstandingCallsTest, EndDestroysTheCallBeforeItCountsAsEnded) {
  OutstandingCalls calls;
  auto call = std::make_shared<FakeCall>([](FakeCall*) {});
  FakeCall* const raw = call.get();
  std::size_t size_when_destroyed = 99;
  call->on_destroy = [&] { size_when_destroyed = calls.size(); };
  calls.Add(std::move(call));
  EXPECT_EQ(calls.size(), 1u);
  calls.End(raw);
  EXPECT_EQ(size_when_destroyed, 1u);
  EXPECT_EQ(calls.size(), 0u);
}

// As in gRPC when the cancelling thread happens to be the one that runs callbacks.
TEST(OutstandingCallsTest, ACallMayEndWithinItsCancellation) {
  OutstandingCalls calls;
  int cancelled = 0;
  for (int i = 0; i < 3; ++i) {
    calls.Add(std::make_shared<FakeCall>([&](FakeCall* call) {
      ++cancelled;
      calls.End(call);
    }));
  }
  calls.CancelAndWait();
  EXPECT_EQ(cancelled, 3);
  EXPECT_EQ(calls.size(), 0u);
}

TEST(OutstandingCallsTest, CancelsInTheOrderInWhichCallsWereAdded) {
  OutstandingCalls calls;
  std::vector<int> cancelled;
  for (int i = 0; i < 100; ++i) {
    calls.Add(std::make_shared<FakeCall>([&calls, &cancelled, i](FakeCall* call) {
      cancelled.push_back(i);
      calls.End(call);
    }));
  }
  calls.CancelAndWait();
  ASSERT_EQ(cancelled.size(), 100u);
  EXPECT_TRUE(std::is_sorted(cancelled.begin(), cancelled.end()));
}

TEST(OutstandingCallsTest, WaitsForACallbackThatIsStillRunning) {
  OutstandingCalls calls;
  std::promise<FakeCall*> cancelled;
  std::promise<void> finish;
  std::atomic<bool> ended{false};
  calls.Add(std::make_shared<FakeCall>([&](FakeCall* call) { cancelled.set_value(call); }));
  std::thread callback([&] {
    FakeCall* call = cancelled.get_future().get();
    finish.get_future().wait();
    ended = true;
    calls.End(call);
  });
  auto closing = std::async(std::launch::async, [&] {
    calls.CancelAndWait();
    return ended.load();
  });
  EXPECT_EQ(calls.size(), 1u);
  finish.set_value();
  EXPECT_TRUE(closing.get());
  callback.join();
}

// Calls end on their own, on several threads, while the connection closes and
// cancels them: each ends once, none is touched after it ended.
TEST(OutstandingCallsTest, CallsEndWhileTheyAreCancelled) {
  constexpr int kThreads = 4;
  constexpr int kCallsEach = 200;
  for (int round = 0; round < 20; ++round) {
    auto calls = std::make_unique<OutstandingCalls>();
    std::atomic<int> cancelled{0};
    std::atomic<int> destroyed{0};
    std::vector<std::vector<FakeCall*>> mine(kThreads);
    for (int i = 0; i < kThreads * kCallsEach; ++i) {
      auto call = std::make_shared<FakeCall>([&](FakeCall*) { ++cancelled; });
      call->on_destroy = [&] { ++destroyed; };
      mine[i % kThreads].push_back(call.get());
      calls->Add(std::move(call));
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (FakeCall* call : mine[t]) calls->End(call);
      });
    }
    calls->CancelAndWait();
    EXPECT_EQ(destroyed, kThreads * kCallsEach);
    EXPECT_LE(cancelled, kThreads * kCallsEach);
    // The threads' last End() may still be returning: it must not use objects that are destroyed
    // here.
    calls.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace idempotency::internal
