#include "interceptors/server/threads/single_polling_thread.h"

#include <grpc/support/cpu.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Long enough for a thread that is free to run a callback, even on a busy machine.
constexpr milliseconds kFreeThreadRuns(300);

class SinglePollingThreadTest : public ::testing::Test {
 protected:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer response;
  };

  // Runs it on a thread of gRPC's.
  void Run(std::function<void()> callback) {
    const auto call = std::make_shared<Call>();
    const grpc::Slice slice("x");
    call->request = grpc::ByteBuffer(&slice, 1);
    stub_.UnaryCall(&call->context, "/no/Method", {}, &call->request, &call->response,
                    [call, callback = std::move(callback)](const grpc::Status&) { callback(); });
  }

  // Whether a callback runs while another one blocks, for `limit` at most.
  bool TwoRunAtOnce(milliseconds limit) {
    const auto begun = std::make_shared<std::promise<void>>();
    const auto second = std::make_shared<std::promise<void>>();
    const auto at_once = std::make_shared<std::promise<bool>>();
    Run([=] {
      begun->set_value();
      at_once->set_value(second->get_future().wait_for(limit) == std::future_status::ready);
    });
    begun->get_future().wait();
    Run([second] { second->set_value(); });
    return at_once->get_future().get();
  }

  const std::shared_ptr<grpc::Channel> channel_ =
      grpc::CreateChannel("", std::shared_ptr<grpc::ChannelCredentials>());
  grpc::GenericStub stub_{channel_};
};

TEST_F(SinglePollingThreadTest, OneThreadRunsEveryCallbackWhileItExists) {
  EXPECT_TRUE(TwoRunAtOnce(seconds(20)));
  auto first = SinglePollingThread::Share();
  ASSERT_NE(first, nullptr);
  EXPECT_FALSE(TwoRunAtOnce(kFreeThreadRuns));
  const auto second = SinglePollingThread::Share();
  EXPECT_EQ(first, second);
  first.reset();
  EXPECT_FALSE(TwoRunAtOnce(kFreeThreadRuns)) << "another one holds it";
}

TEST_F(SinglePollingThreadTest, TheOtherThreadsRunAgainAfterIt) {
  for (int i = 0; i < 50; ++i) ASSERT_NE(SinglePollingThread::Share(), nullptr);
  EXPECT_TRUE(TwoRunAtOnce(seconds(20)));
}

TEST_F(SinglePollingThreadTest, ThreadsThatAreBusyStayAsTheyAre) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::vector<std::future<void>> begun;
  for (int i = 0; i < SinglePollingThread::ThreadsOf(gpr_cpu_num_cores()); ++i) {
    auto began = std::make_shared<std::promise<void>>();
    begun.push_back(began->get_future());
    Run([began, released] {
      began->set_value();
      released.wait();
    });
  }
  for (const auto& began : begun) began.wait();
  EXPECT_EQ(SinglePollingThread::Share(absl::Milliseconds(20)), nullptr);
  release.set_value();
  EXPECT_TRUE(TwoRunAtOnce(seconds(20)));
}

TEST(GrpcThreadsTest, HaveTheNumberOfGrpc) {
  EXPECT_EQ(SinglePollingThread::ThreadsOf(1), 2);
  EXPECT_EQ(SinglePollingThread::ThreadsOf(8), 4);
  EXPECT_EQ(SinglePollingThread::ThreadsOf(100), 16);
}

}  // namespace
}  // namespace idempotency::internal
