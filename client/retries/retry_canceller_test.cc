#include "grpc_idempotency/client/retry_canceller.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "client/retries/cancellable_tries.h"
#include "client/testing/till_server.h"
#include "grpc_idempotency/client/call_with_retries.h"
#include "tests/support/blocking_call.h"

namespace idempotency::internal {
namespace {

using testing::BlockingCall;

using std::chrono::minutes;
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
