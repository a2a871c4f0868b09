// Calls on completion queues, before they reach a handler: their bound, and their request message.
#include "server/rpc/queued_calls.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "server/rpc/call_queues.h"
#include "server/rpc/call_table.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/unserved_methods.h"

namespace idempotency::internal {
namespace {

// Answers with the request.
class Echo final : public grpc::ServerUnaryReactor {
 public:
  Echo(const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
    response = request;
    Finish(grpc::Status::OK);
  }
  void OnDone() override { std::unique_ptr<Echo>(this).reset(); }
};

// Sends the request back, and ends when its caller has gone.
class Watch final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit Watch(const grpc::ByteBuffer& request) : message_(request) { StartWrite(&message_); }
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { std::unique_ptr<Watch>(this).reset(); }

 private:
  grpc::ByteBuffer message_;
};

class QueuedCallsTest : public ::testing::Test {
 protected:
  void Serve(const CallTable::Limits& limits) {
    table_ = std::make_unique<CallTable>(limits);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    rpc_.Register(builder, methods_);
    unserved_.Register(builder, methods_);
    methods_.Add(QueuedMethods::Unary{
        rpc_.Add("Echo"), [](grpc::ServerContextBase* /*context*/, grpc::ByteBuffer* request,
                             grpc::ByteBuffer* response) {
          return std::make_unique<Echo>(*request, *response).release();
        }});
    methods_.Add(QueuedMethods::ServerStream{
        rpc_.Add("Watch"), [](grpc::ServerContextBase* /*context*/, grpc::ByteBuffer* request) {
          return std::make_unique<Watch>(*request).release();
        }});
    queues_ = std::make_unique<CallQueues>(builder);
    server_ = builder.BuildAndStart();
    queues_->Start(methods_, *table_);
    channel_ =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  }
  ~QueuedCallsTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    queues_->Stop();
    EXPECT_EQ(table_->size(), 0);
  }

  bool AwaitCalls(int calls) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (table_->size() != calls && std::chrono::steady_clock::now() < deadline) {
    }
    return table_->size() == calls;
  }

  // gRPC keeps references to what is registered.
  RawService rpc_{"test.Service"};
  UnservedMethods unserved_;
  QueuedMethods methods_;
  std::unique_ptr<CallTable> table_;
  std::unique_ptr<CallQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// A call whose caller sends headers, and then what it likes. Every step waits.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method)
      : stub_(channel) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    call_ = stub_.PrepareCall(&context_, "/test.Service/" + method, &queue_);
    call_->StartCall(nullptr);
    Await();
  }
  ~RawCall() {
    context_.TryCancel();
    if (!ended_) End();
  }
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;

  bool Write(const std::string& message) {
    const grpc::Slice slice(message);
    call_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    return Await();
  }
  void HalfClose() {
    call_->WritesDone(nullptr);
    Await();
  }
  bool Read() {
    call_->Read(&received_, nullptr);
    return Await();
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status End() {
    ended_ = true;
    // The status follows every message that was sent.
    while (Read()) {
    }
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Await();
    return status;
  }
  bool HasTrailer(const std::string& name) const {
    return context_.GetServerTrailingMetadata().count(name) > 0;
  }

 private:
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::ByteBuffer received_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool ended_ = false;
};

TEST_F(QueuedCallsTest, AUnaryCallIsAnswered) {
  Serve({4, 4, 4});
  RawCall call(channel_, "Echo");
  EXPECT_TRUE(call.Write("request"));
  EXPECT_TRUE(call.Read());
  EXPECT_TRUE(call.End().ok());
  EXPECT_TRUE(AwaitCalls(0));
}

TEST_F(QueuedCallsTest, ACallIsCountedBeforeItsMessage) {
  Serve({2, 4, 2});
  RawCall unary(channel_, "Echo");
  RawCall watch(channel_, "Watch");
  ASSERT_TRUE(AwaitCalls(2));
  RawCall refused(channel_, "Echo");
  const grpc::Status status = refused.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kOverloaded);
  EXPECT_TRUE(refused.HasTrailer(std::string(kPushbackMetadata)));

  EXPECT_TRUE(unary.Write("request"));
  EXPECT_TRUE(unary.End().ok());
  EXPECT_TRUE(AwaitCalls(1));
  EXPECT_TRUE(watch.Write("request"));
  EXPECT_TRUE(watch.Read());
  watch.Cancel();
  EXPECT_TRUE(AwaitCalls(0));
}

TEST_F(QueuedCallsTest, ACallThatIsCancelledBeforeItsMessageLeavesItsPlace) {
  Serve({4, 4, 4});
  for (const char* const method : {"Echo", "Watch"}) {
    RawCall call(channel_, method);
    ASSERT_TRUE(AwaitCalls(1));
    call.Cancel();
    EXPECT_TRUE(AwaitCalls(0)) << method;
  }
}

// Such a refusal waits for no caller.
TEST_F(QueuedCallsTest, OverTheBoundOfRefusalsACallIsCancelled) {
  Serve({1, 0, 1});
  RawCall only(channel_, "Echo");
  ASSERT_TRUE(AwaitCalls(1));
  for (int i = 0; i < 10; ++i) {
    for (const char* const method : {"Echo", "Watch"}) {
      RawCall dropped(channel_, method);
      EXPECT_EQ(dropped.End().error_code(), grpc::StatusCode::CANCELLED);
    }
  }
  EXPECT_TRUE(only.Write("request"));
  EXPECT_TRUE(only.End().ok());
}

TEST_F(QueuedCallsTest, ACallThatEndsWithoutAMessageIsRefusedWithAReason) {
  Serve({4, 4, 4});
  for (const char* const method : {"Echo", "Watch"}) {
    RawCall call(channel_, method);
    call.HalfClose();
    const grpc::Status status = call.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRequestInvalid);
    EXPECT_TRUE(AwaitCalls(0));
  }
}

TEST_F(QueuedCallsTest, AMethodThatNoServiceHasIsUnimplemented) {
  Serve({4, 4, 4});
  for (const char* const method : {"Other", "Echo/More", ""}) {
    RawCall call(channel_, method);
    EXPECT_EQ(call.End().error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
  }
  EXPECT_TRUE(AwaitCalls(0));
}

// Or calls whose callers do not read the answer take memory without a bound.
TEST_F(QueuedCallsTest, ACallOfAMethodThatNoServiceHasIsCounted) {
  Serve({1, 4, 1});
  RawCall only(channel_, "Echo");
  ASSERT_TRUE(AwaitCalls(1));
  RawCall refused(channel_, "Other");
  EXPECT_EQ(refused.End().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(QueuedCallsTest, AServerEndsWithCallsWithoutAMessage) {
  Serve({4, 4, 4});
  RawCall unary(channel_, "Echo");
  RawCall watch(channel_, "Watch");
  ASSERT_TRUE(AwaitCalls(2));
  server_->Shutdown(std::chrono::system_clock::now());
  EXPECT_TRUE(AwaitCalls(0));
}

}  // namespace
}  // namespace idempotency::internal
