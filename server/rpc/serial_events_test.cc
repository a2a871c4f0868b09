#include "server/rpc/serial_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;

class Reaction final : public SerialEvents::Event {
 public:
  Reaction(SerialEvents& events, std::function<void(bool)> react)
      : SerialEvents::Event(events), react_(std::move(react)) {}

 private:
  void React(bool ok) override { react_(ok); }

  const std::function<void(bool)> react_;
};

TEST(SerialEventsTest, AReactionRunsOnTheThreadThatBringsItsEvent) {
  SerialEvents events;
  std::vector<bool> seen;
  std::thread::id by;
  Reaction reaction(events, [&](bool ok) {
    seen.push_back(ok);
    by = std::this_thread::get_id();
  });
  reaction.Happened(true);
  reaction.Happened(false);
  EXPECT_THAT(seen, ElementsAre(true, false));
  EXPECT_EQ(by, std::this_thread::get_id());
}

TEST(SerialEventsTest, AnEventThatAReactionBringsFollowsIt) {
  SerialEvents events;
  std::vector<int> order;
  Reaction second(events, [&](bool) { order.push_back(3); });
  Reaction first(events, [&](bool) {
    order.push_back(1);
    second.Happened(true);
    order.push_back(2);
  });
  first.Happened(true);
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(SerialEventsTest, AReactionMayDestroyTheCall) {
  struct Call {
    SerialEvents events;
    std::unique_ptr<Reaction> last;
  };
  auto call = std::make_unique<Call>();
  bool reacted = false;
  call->last = std::make_unique<Reaction>(call->events, [&](bool) {
    reacted = true;
    call.reset();
  });
  call->last->Happened(true);
  EXPECT_TRUE(reacted);
  EXPECT_EQ(call, nullptr);
}

TEST(SerialEventsTest, ReactionsOfSeveralThreadsDoNotOverlap) {
  constexpr int kThreads = 4;
  constexpr int kEvents = 20'000;
  SerialEvents events;
  std::atomic<int> reacting{0};
  std::array<std::atomic<int>, kThreads> reacted{};
  std::atomic<bool> overlapped{false};
  int unguarded = 0;
  std::vector<std::unique_ptr<Reaction>> reactions;
  for (int i = 0; i < kThreads; ++i) {
    reactions.push_back(std::make_unique<Reaction>(events, [&, i](bool) {
      if (++reacting != 1) overlapped = true;
      ++unguarded;
      --reacting;
      ++reacted[i];
    }));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int event = 0; event < kEvents; ++event) {
        reactions[i]->Happened(true);
        // It happens again only after its reaction, which may run on another thread.
        while (reacted[i] == event) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(overlapped);
  for (const std::atomic<int>& own : reacted) EXPECT_EQ(own, kEvents);
  EXPECT_EQ(unguarded, kThreads * kEvents);
}

}  // namespace
}  // namespace idempotency::internal
