#include "grpc_idempotency/server_guard/guarded_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/testing/fake_connection.h"
#include "core/mutex.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "testdata/till.grpc.pb.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;
using testing::HasSubstr;
using Operation = FakeConnection::Operation;

// Its handler waits until the test allows it to return, or until its call is cancelled.
class SlowTill final : public Till::Service {
 public:
  grpc::Status Charge(grpc::ServerContext* context, const ChargeRequest*,
                      ChargeReply* reply) override {
    MutexLock lock(mutex_);
    entered_ = true;
    changed_.NotifyAll();
    while (!released_ && !context->IsCancelled()) {
      changed_.WaitUntil(lock, DeadlineIn(absl::Milliseconds(10)));
    }
    reply->set_charge_id("ch_1");
    return grpc::Status::OK;
  }
  void AwaitEntered() {
    MutexLock lock(mutex_);
    while (!entered_) changed_.Wait(lock);
  }
  void Release() {
    MutexLock lock(mutex_);
    released_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool entered_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

class GuardedServerTest : public testing::Test {
 protected:
  static std::unique_ptr<ServerGuard> Guard(std::unique_ptr<Connection> connection) {
    GuardOptions options;
    options.name_space = "tills";
    options.scope = SharedScope("till");
    options.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
    auto guard = ServerGuard::Create(std::move(connection), std::move(options));
    EXPECT_TRUE(guard.ok()) << guard.status();
    return *std::move(guard);
  }

  void Start() {
    auto connection = std::make_unique<FakeConnection>();
    store_ = connection.get();
    auto guard = Guard(std::move(connection));
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    ASSERT_TRUE(guard->Protect<Till>(builder, &till_).ok());
    auto server = GuardedServer::Start(builder, std::move(guard));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    // Not in the process: that transport breaks its calls when its server shuts down.
    stub_ = Till::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }

  grpc::Status Charge() {
    grpc::ClientContext context;
    context.AddMetadata("idempotency-key", "order-1");
    ChargeReply reply;
    return stub_->Charge(&context, ChargeRequest(), &reply);
  }

  SlowTill till_;
  FakeConnection* store_ = nullptr;
  std::unique_ptr<GuardedServer> server_;
  std::unique_ptr<Till::Stub> stub_;
};

TEST_F(GuardedServerTest, AHandlerThatRunsAtShutdownIsRecordedAndAnswered) {
  Start();
  grpc::Status status;
  std::thread caller([&] { status = Charge(); });
  till_.AwaitEntered();
  std::thread releaser([&] { till_.Release(); });
  server_->Shutdown(absl::Seconds(30));
  releaser.join();
  caller.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
}

TEST_F(GuardedServerTest, ACallThatWaitsForAVerdictDoesNotDelayShutdown) {
  Start();
  store_->Hold(Operation::kReserve);
  grpc::Status status;
  std::thread caller([&] { status = Charge(); });
  ASSERT_TRUE(store_->WaitForCalls(Operation::kReserve, 1));
  server_->Shutdown(absl::InfiniteDuration());
  caller.join();
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kStoreUnavailable);
}

TEST_F(GuardedServerTest, HandlersOverTheGraceAreCancelledAndStillRecorded) {
  Start();
  grpc::Status status;
  std::thread caller([&] { status = Charge(); });
  till_.AwaitEntered();
  server_->Shutdown(absl::ZeroDuration());
  caller.join();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(store_->WaitForState(v1::RECORD_STATE_COMPLETED));
}

TEST_F(GuardedServerTest, DestroyingItEndsTheServerFirst) {
  Start();
  EXPECT_TRUE([this] {
    std::thread caller([&] { static_cast<void>(Charge()); });
    till_.AwaitEntered();
    server_.reset();
    caller.join();
    return true;
  }());
}

TEST_F(GuardedServerTest, ShutdownMayBeCalledTwiceAndEndsWait) {
  Start();
  std::promise<void> waits;
  std::atomic<bool> waited{false};
  std::thread waiter([&] {
    waits.set_value();
    server_->Wait();
    waited = true;
  });
  waits.get_future().wait();
  // The server serves meanwhile, so the waiter has the time of a call to begin to wait.
  till_.Release();
  EXPECT_TRUE(Charge().ok());
  EXPECT_FALSE(waited);
  server_->Shutdown(absl::Seconds(1));
  server_->Shutdown(absl::Seconds(1));
  waiter.join();
  EXPECT_TRUE(waited);
  EXPECT_EQ(Charge().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GuardedServerTest, AMethodWithoutAChoiceIsRefusedAsInstallRefusesIt) {
  GuardOptions options;
  options.name_space = "tills";
  auto guard = ServerGuard::Create(std::make_unique<FakeConnection>(), std::move(options));
  ASSERT_TRUE(guard.ok());
  grpc::ServerBuilder builder;
  ASSERT_TRUE((*guard)->Protect<Till>(builder, &till_).ok());
  const auto server = GuardedServer::Start(builder, *std::move(guard));
  EXPECT_EQ(server.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(server.status().message()),
              HasSubstr("/idempotency.testdata.Till/Charge"));
}

TEST_F(GuardedServerTest, AServerThatCannotStartIsUnavailable) {
  auto guard = Guard(std::make_unique<FakeConnection>());
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:/nowhere/at/all.sock", grpc::InsecureServerCredentials());
  ASSERT_TRUE(guard->Protect<Till>(builder, &till_).ok());
  const auto server = GuardedServer::Start(builder, std::move(guard));
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace idempotency::internal
