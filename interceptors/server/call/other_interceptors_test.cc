#include "interceptors/server/call/other_interceptors.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <thread>

#include "grpc_idempotency/server_guard/guard_threads.h"
#include "interceptors/server/threads/worker_pool.h"

namespace idempotency::internal {
namespace {

constexpr std::chrono::seconds kLong{30};

TEST(OtherInterceptors, WithoutAnyTheReplyIsSentHere) {
  WorkerPools pools;
  const OtherInterceptors others(pools.replies);
  std::thread::id sender;
  others.Run([&sender] { sender = std::this_thread::get_id(); });
  EXPECT_EQ(sender, std::this_thread::get_id());
}

// The refusal of a call whose handler has no place is a reply as well.
TEST(OtherInterceptors, AreNotRunHereWhileTheHandlersPoolIsFull) {
  GuardThreads threads;
  threads.handlers = 1;
  WorkerPools pools(threads);
  std::promise<void> open;
  std::promise<void> begun;
  pools.handlers.Run([&] {
    begun.set_value();
    open.get_future().wait();
  });
  begun.get_future().wait();
  while (pools.handlers.Run([] {}) == WorkerPool::Outcome::kTaken) {
  }
  OtherInterceptors others(pools.replies);
  others.Follow();
  const auto sender = std::make_shared<std::promise<std::thread::id>>();
  auto sent = sender->get_future();
  others.Run([sender] { sender->set_value(std::this_thread::get_id()); });
  ASSERT_EQ(sent.wait_for(kLong), std::future_status::ready);
  EXPECT_NE(sent.get(), std::this_thread::get_id());
  open.set_value();
}

// Each reply belongs to a call that is in memory already.
TEST(OtherInterceptors, AreNotRunHereHoweverManyRepliesWait) {
  constexpr std::size_t kReplies = 2 * GuardThreads::kMaxWaiting;
  GuardThreads threads;
  threads.replies = 1;
  WorkerPools pools(threads);
  OtherInterceptors others(pools.replies);
  others.Follow();
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  others.Run([opened] { opened.wait(); });
  std::atomic<std::size_t> here{0};
  std::atomic<std::size_t> elsewhere{0};
  for (std::size_t i = 0; i < kReplies; ++i) {
    others.Run([&, caller = std::this_thread::get_id()] {
      ++(std::this_thread::get_id() == caller ? here : elsewhere);
    });
  }
  open.set_value();
  pools.Stop();
  EXPECT_EQ(here, 0u);
  EXPECT_EQ(elsewhere, kReplies);
}

TEST(OtherInterceptors, AReplyAfterTheStopIsSentHere) {
  WorkerPools pools;
  OtherInterceptors others(pools.replies);
  others.Follow();
  pools.Stop();
  std::thread::id sender;
  others.Run([&sender] { sender = std::this_thread::get_id(); });
  EXPECT_EQ(sender, std::this_thread::get_id());
}

}  // namespace
}  // namespace idempotency::internal
