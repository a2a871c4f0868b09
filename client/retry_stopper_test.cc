#include "grpc_idempotency/client/retry_stopper.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "client/stoppable_tries.h"
#include "grpc_idempotency/client/call_with_retries.h"
#include "interceptors/client/testdata/till_server.h"

namespace idempotency::internal {
namespace {

using std::chrono::minutes;
using std::chrono::steady_clock;
using testdata::TillServer;

// Far longer than a test may take: an end comes from Stop(), or not in time.
CallRetries LongRetries(RetryStopper& stopper) {
  CallRetries retries;
  retries.try_timeout = absl::Minutes(10);
  retries.min_backoff = absl::Minutes(10);
  retries.stopper = &stopper;
  return retries;
}

TEST(RetryStopperTest, EndsAPause) {
  RetryStopper stopper;
  std::promise<void> tried;
  std::promise<grpc::Status> ended;
  std::thread caller([&] {
    pthread_setname_np(pthread_self(), "caller");
    ended.set_value(CallWithRetries(
        "order-42", steady_clock::now() + minutes(60),
        [&](grpc::ClientContext&) {
          tried.set_value();
          return grpc::Status(grpc::StatusCode::UNAVAILABLE, "away");
        },
        LongRetries(stopper)));
  });
  tried.get_future().wait();
  std::future<grpc::Status> status = ended.get_future();
  EXPECT_EQ(status.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout)
      << "a pause of ten minutes is over";
  stopper.Stop();
  EXPECT_EQ(status.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  caller.join();
}

TEST(RetryStopperTest, CancelsARunningTry) {
  TillServer server;
  server.Script({{grpc::Status::OK, {}, false, true}});
  const auto stub = testdata::Till::NewStub(server.Dial());
  RetryStopper stopper;
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
        LongRetries(stopper));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  });
  trying.get_future().wait();
  stopper.Stop();
  caller.join();
}

TEST(RetryStopperTest, ABegunTryIsCancelledAfterTheStop) {
  TillServer server;
  const auto stub = testdata::Till::NewStub(server.Dial());
  RetryStopper stopper;
  stopper.Stop();
  grpc::ClientContext context;
  const StoppableTries::Running running(StoppableTries::Of(stopper), context);
  testdata::ChargeRequest request;
  testdata::ChargeReply reply;
  EXPECT_EQ(stub->Charge(&context, request, &reply).error_code(), grpc::StatusCode::CANCELLED);
}

TEST(RetryStopperTest, ATryThatIsOverIsLeftAlone) {
  TillServer server;
  const auto stub = testdata::Till::NewStub(server.Dial());
  RetryStopper stopper;
  grpc::ClientContext context;
  { const StoppableTries::Running running(StoppableTries::Of(stopper), context); }
  stopper.Stop();
  testdata::ChargeRequest request;
  testdata::ChargeReply reply;
  EXPECT_TRUE(stub->Charge(&context, request, &reply).ok());
}

TEST(RetryStopperTest, StoppedBeforeNothingIsTried) {
  RetryStopper stopper;
  EXPECT_FALSE(stopper.stopped());
  stopper.Stop();
  EXPECT_TRUE(stopper.stopped());
  int tries = 0;
  const grpc::Status status = CallWithRetries(
      "order-42", steady_clock::now() + minutes(60),
      [&](grpc::ClientContext&) {
        ++tries;
        return grpc::Status::OK;
      },
      LongRetries(stopper));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(tries, 0);
}

}  // namespace
}  // namespace idempotency::internal
