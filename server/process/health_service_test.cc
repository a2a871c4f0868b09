#include "server/process/health_service.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/limits.h"
#include "server/rpc/call_queues.h"

namespace idempotency::internal {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class HealthServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    health_.Register(builder, methods_);
    queues_ = std::make_unique<CallQueues>(builder);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    queues_->Start(methods_, table_);
    stub_ = Health::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  void TearDown() override { Stop(std::chrono::seconds(20)); }

  void Stop(std::chrono::milliseconds timeout) {
    server_->Shutdown(std::chrono::system_clock::now() + timeout);
    queues_->Stop();
  }

  grpc::Status Check(const std::string& name, HealthCheckResponse* response) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(name);
    return stub_->Check(&context, request, response);
  }

  HealthService health_;
  QueuedMethods methods_;
  CallTable table_;
  std::unique_ptr<CallQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Health::Stub> stub_;
};

// A stream of a service's statuses.
class Watching {
 public:
  Watching(Health::Stub& stub, const std::string& name) {
    HealthCheckRequest request;
    request.set_service(name);
    reader_ = stub.Watch(&context_, request);
  }
  // The next one; -1 at the end.
  int Next() {
    HealthCheckResponse response;
    return reader_->Read(&response) ? response.status() : -1;
  }
  void Cancel() { context_.TryCancel(); }
  grpc::StatusCode End() { return reader_->Finish().error_code(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader_;
};

TEST_F(HealthServiceTest, ANameHasTheStatusThatWasSet) {
  HealthCheckResponse response;
  EXPECT_EQ(Check("a", &response).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Check("", &response).error_code(), grpc::StatusCode::NOT_FOUND);
  health_.SetServingStatus("a", true);
  ASSERT_TRUE(Check("a", &response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  health_.SetServingStatus(false);
  ASSERT_TRUE(Check("a", &response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check("b", &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(HealthServiceTest, AWatchReceivesEveryChangeOfItsName) {
  Watching watching(*stub_, "a");
  EXPECT_EQ(watching.Next(), HealthCheckResponse::SERVICE_UNKNOWN);
  health_.SetServingStatus("b", true);
  health_.SetServingStatus("a", true);
  EXPECT_EQ(watching.Next(), HealthCheckResponse::SERVING);
  health_.SetServingStatus("a", true);
  health_.SetServingStatus("a", false);
  EXPECT_EQ(watching.Next(), HealthCheckResponse::NOT_SERVING);
  watching.Cancel();
  EXPECT_EQ(watching.Next(), -1);
  EXPECT_EQ(watching.End(), grpc::StatusCode::CANCELLED);
}

TEST_F(HealthServiceTest, NoneServesAfterTheShutdown) {
  health_.SetServingStatus("a", true);
  Watching watching(*stub_, "a");
  EXPECT_EQ(watching.Next(), HealthCheckResponse::SERVING);
  health_.Shutdown();
  EXPECT_EQ(watching.Next(), HealthCheckResponse::NOT_SERVING);
  health_.SetServingStatus("a", true);
  HealthCheckResponse response;
  ASSERT_TRUE(Check("a", &response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  watching.Cancel();
}

TEST_F(HealthServiceTest, AnOverlongNameIsRefused) {
  HealthCheckResponse response;
  const std::string longest(HealthService::kMaxNameBytes, 'n');
  EXPECT_EQ(Check(longest, &response).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Check(longest + "n", &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  Watching watching(*stub_, longest + "n");
  EXPECT_EQ(watching.Next(), -1);
  EXPECT_EQ(watching.End(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(HealthServiceTest, AWatchEndsWithItsServer) {
  Watching watching(*stub_, "a");
  EXPECT_EQ(watching.Next(), HealthCheckResponse::SERVICE_UNKNOWN);
  Stop(std::chrono::milliseconds(1));
  EXPECT_EQ(watching.Next(), -1);
  EXPECT_NE(watching.End(), grpc::StatusCode::OK);
}

TEST(CallQueuesTest, QueuesOfAServerThatDidNotStartAreDestroyed) {
  grpc::ServerBuilder builder;
  const CallQueues queues(builder);
}

TEST(CallQueuesTest, TheNumberOfThreadsIsBounded) {
  EXPECT_EQ(CallQueues::Threads(1), 1);
  EXPECT_EQ(CallQueues::Threads(7), 1);
  EXPECT_EQ(CallQueues::Threads(8), 2);
  EXPECT_EQ(CallQueues::Threads(1000), limits::kMaxPollingThreads);
}

}  // namespace
}  // namespace idempotency::internal
