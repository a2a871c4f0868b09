#include "grpc_idempotency/client/retry_canceller.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/client_interceptor.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "client/retries/cancellable_tries.h"
#include "client/testing/till_server.h"
#include "grpc_idempotency/client/call_with_retries.h"
#include "tests/support/blocking_call.h"

namespace idempotency::internal {
namespace {

using testing::BlockingCall;

using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testdata::TillServer;

// Far longer than a test may take: either Cancel() ends it, or nothing does in time.
CallRetries LongRetries(RetryCanceller& canceller) {
  CallRetries retries;
  retries.try_timeout = absl::Minutes(10);
  retries.min_backoff = absl::Minutes(10);
  retries.canceller = &canceller;
  return retries;
}

TEST(RetryCancellerTest, EndsAPause) {
  RetryCanceller canceller;
  std::promise<void> tried;
  BlockingCall<grpc::Status> caller([&] {
    return CallWithRetries(
        "order-42", steady_clock::now() + minutes(60),
        [&](grpc::ClientContext&) {
          tried.set_value();
          return grpc::Status(grpc::StatusCode::UNAVAILABLE, "away");
        },
        LongRetries(canceller));
  });
  tried.get_future().wait();
  EXPECT_TRUE(caller.AwaitBlocked()) << "a pause of ten minutes is over";
  canceller.Cancel();
  EXPECT_EQ(caller.Get().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(RetryCancellerTest, CancelsARunningTry) {
  TillServer server;
  server.Script({{grpc::Status::OK, {}, false, true}});
  const auto stub = testdata::Till::NewStub(server.Dial());
  RetryCanceller canceller;
  std::promise<void> trying;
  std::thread caller([&] {
    pthread_setname_np(pthread_self(), "caller");
    testdata::ChargeRequest request;
    testdata::ChargeReply reply;
    const grpc::Status status = CallWithRetries(
        "order-42", steady_clock::now() + minutes(60),
        [&](grpc::ClientContext& context) {
          trying.set_value();
          return stub->Charge(&context, request, &reply);
        },
        LongRetries(canceller));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  });
  trying.get_future().wait();
  canceller.Cancel();
  caller.join();
}

// Calls `cancelling` when a call of its channel is cancelled.
class CancelInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit CancelInterceptor(const std::function<void()>& cancelling) : cancelling_(cancelling) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_CANCEL)) cancelling_();
    methods->Proceed();
  }

 private:
  const std::function<void()>& cancelling_;
};

class CancelInterceptors final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit CancelInterceptors(std::function<void()> cancelling)
      : cancelling_(std::move(cancelling)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* /*info*/) override {
    return new CancelInterceptor(cancelling_);
  }

 private:
  const std::function<void()> cancelling_;
};

std::shared_ptr<grpc::Channel> DialWith(const TillServer& server,
                                        std::function<void()> cancelling) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<CancelInterceptors>(std::move(cancelling)));
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      server.address(), grpc::InsecureChannelCredentials(), {}, std::move(interceptors));
}

// gRPC runs the interceptors of the channel within TryCancel().
TEST(RetryCancellerTest, AnInterceptorMayUseTheCancellerAndDelayACancellation) {
  TillServer server;
  server.Script({{grpc::Status::OK, {}, false, true}});
  RetryCanceller canceller;
  std::promise<bool> intercepted;
  std::promise<void> go_on;
  const auto stub = testdata::Till::NewStub(DialWith(server, [&] {
    intercepted.set_value(canceller.cancelled());
    go_on.get_future().wait();
  }));
  grpc::ClientContext context;
  auto running =
      std::make_unique<CancellableTries::Running>(CancellableTries::Of(canceller), context);
  std::thread caller([&] {
    testdata::ChargeRequest request;
    testdata::ChargeReply reply;
    EXPECT_EQ(stub->Charge(&context, request, &reply).error_code(), grpc::StatusCode::CANCELLED);
  });
  while (server.arrivals().empty()) std::this_thread::yield();
  std::promise<void> cancelled;
  std::thread canceling([&] {
    canceller.Cancel();
    cancelled.set_value();
  });
  std::future<bool> seen = intercepted.get_future();
  // Without it no thread of this test ends.
  if (seen.wait_for(seconds(5)) != std::future_status::ready) std::abort();
  EXPECT_TRUE(seen.get());
  // Other tries of the canceller begin and end meanwhile.
  {
    grpc::ClientContext other;
    const CancellableTries::Running begun(CancellableTries::Of(canceller), other);
  }
  BlockingCall<bool> ended([&] {
    running.reset();
    return true;
  });
  EXPECT_TRUE(ended.AwaitBlocked()) << "the context is still used";
  go_on.set_value();
  EXPECT_TRUE(ended.Get());
  EXPECT_EQ(cancelled.get_future().wait_for(seconds(5)), std::future_status::ready);
  canceling.join();
  caller.join();
}

TEST(RetryCancellerTest, ABegunTryIsCancelledAfterTheStop) {
  TillServer server;
  const auto stub = testdata::Till::NewStub(server.Dial());
  RetryCanceller canceller;
  canceller.Cancel();
  grpc::ClientContext context;
  const CancellableTries::Running running(CancellableTries::Of(canceller), context);
  testdata::ChargeRequest request;
  testdata::ChargeReply reply;
  EXPECT_EQ(stub->Charge(&context, request, &reply).error_code(), grpc::StatusCode::CANCELLED);
}

TEST(RetryCancellerTest, ATryThatIsOverIsNotCancelled) {
  TillServer server;
  const auto stub = testdata::Till::NewStub(server.Dial());
  RetryCanceller canceller;
  grpc::ClientContext context;
  { const CancellableTries::Running running(CancellableTries::Of(canceller), context); }
  canceller.Cancel();
  testdata::ChargeRequest request;
  testdata::ChargeReply reply;
  EXPECT_TRUE(stub->Charge(&context, request, &reply).ok());
}

TEST(RetryCancellerTest, StoppedBeforeNothingIsTried) {
  RetryCanceller canceller;
  EXPECT_FALSE(canceller.cancelled());
  canceller.Cancel();
  EXPECT_TRUE(canceller.cancelled());
  int tries = 0;
  const grpc::Status status = CallWithRetries(
      "order-42", steady_clock::now() + minutes(60),
      [&](grpc::ClientContext&) {
        ++tries;
        return grpc::Status::OK;
      },
      LongRetries(canceller));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(tries, 0);
}

}  // namespace
}  // namespace idempotency::internal
