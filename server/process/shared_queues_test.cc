// Several servers on the same completion queues.
#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "core/grpc_headers.h"
#include "server/files/file_content.h"
#include "server/process/health_service.h"
#include "server/rpc/borrowed_queues.h"
#include "server/rpc/call_queues.h"

namespace idempotency::internal {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// A server with one service, on queues of its own or on those of another.
class Server {
 public:
  explicit Server(const Server* other = nullptr) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    health_.Register(builder, methods_);
    queues_ = other == nullptr ? std::make_unique<CallQueues>(builder)
                               : std::make_unique<CallQueues>(builder, *other->queues_);
    server_ = builder.BuildAndStart();
    queues_->Start(methods_, table_);
    health_.SetServingStatus("", true);
    stub_ = Health::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  ~Server() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    queues_->Stop();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  bool Answers() const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    HealthCheckResponse response;
    return stub_->Check(&context, HealthCheckRequest(), &response).ok();
  }

  // A stream whose first message has arrived.
  class Watch {
   public:
    explicit Watch(const Server& server) {
      context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
      stream_ = server.stub_->Watch(&context_, HealthCheckRequest());
      HealthCheckResponse response;
      EXPECT_TRUE(stream_->Read(&response));
    }
    grpc::StatusCode End() {
      HealthCheckResponse response;
      while (stream_->Read(&response)) {
      }
      return stream_->Finish().error_code();
    }

   private:
    grpc::ClientContext context_;
    std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream_;
  };

 private:
  HealthService health_;
  QueuedMethods methods_;
  CallTable table_;
  std::unique_ptr<CallQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Health::Stub> stub_;
};

// Of servers that have answered: a thread has its name before it serves.
int QueueThreads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto name = FileContent(task.path() / "comm");
    if (name.ok() && absl::StartsWith(*name, "grpc-queue-")) ++count;
  }
  return count;
}

int ThreadsOfOneServer() { return CallQueues::Threads(std::thread::hardware_concurrency()); }

TEST(SharedQueuesTest, AServerOnTheQueuesOfAnotherHasTheSameThreads) {
  const Server first;
  const Server second(&first);
  EXPECT_TRUE(first.Answers());
  EXPECT_TRUE(second.Answers());
  EXPECT_EQ(QueueThreads(),
            BorrowedQueues::Possible() ? ThreadsOfOneServer() : 2 * ThreadsOfOneServer());
}

TEST(SharedQueuesTest, ServersHaveTheirOwnQueuesOtherwise) {
  const Server first;
  const Server second;
  EXPECT_TRUE(first.Answers());
  EXPECT_TRUE(second.Answers());
  EXPECT_EQ(QueueThreads(), 2 * ThreadsOfOneServer());
}

TEST(SharedQueuesTest, TheBorrowersEndLeavesTheOther) {
  const Server first;
  {
    const Server second(&first);
    Server::Watch watch(second);
    EXPECT_TRUE(second.Answers());
  }
  EXPECT_TRUE(first.Answers());
  const Server third(&first);
  EXPECT_TRUE(third.Answers());
}

TEST(SharedQueuesTest, TheOwnersEndLeavesTheBorrower) {
  auto first = std::make_unique<Server>();
  const Server second(first.get());
  Server::Watch of_first(*first);
  Server::Watch of_second(second);
  first.reset();
  EXPECT_NE(of_first.End(), grpc::StatusCode::OK);
  EXPECT_TRUE(second.Answers());
}

TEST(SharedQueuesTest, QueuesOfABorrowersBorrowerAreTheSame) {
  const Server first;
  auto second = std::make_unique<Server>(&first);
  const Server third(second.get());
  second.reset();
  EXPECT_TRUE(third.Answers());
  EXPECT_TRUE(first.Answers());
}

// gRPC reads the variable once, so that this process goes on with its poller.
TEST(SharedQueuesTest, NothingIsSharedWithAnotherPoller) {
  ASSERT_EQ(setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/1), 0);
  EXPECT_FALSE(BorrowedQueues::Possible());
  {
    const Server first;
    const Server second(&first);
    EXPECT_TRUE(first.Answers());
    EXPECT_TRUE(second.Answers());
    EXPECT_EQ(QueueThreads(), 2 * ThreadsOfOneServer());
  }
  ASSERT_EQ(setenv("GRPC_POLL_STRATEGY", "epoll1", /*overwrite=*/1), 0);
  EXPECT_EQ(BorrowedQueues::Possible(), IDEMPOTENCY_GRPC_CREDENTIALS_GET_SERVER);
  ASSERT_EQ(unsetenv("GRPC_POLL_STRATEGY"), 0);
}

}  // namespace
}  // namespace idempotency::internal
