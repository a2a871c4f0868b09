#include "grpc_idempotency/client_interceptor/client_interceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "absl/time/clock.h"

#include "client/testing/till_server.h"
#include "grpc_idempotency/uuid.h"
#include "interceptors/client/testing/keyed_till.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;
using testdata::TillServer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClientInterceptorTest : public ::testing::Test {
 protected:
  TillServer server_;
  const std::unique_ptr<Till::Stub> stub_ = Till::NewStub(testdata::DialKeyed(server_));
  grpc::ClientContext context_;
  ChargeRequest request_;
  ChargeReply reply_;
};

TEST_F(ClientInterceptorTest, AMutatingCallGetsATimeOrderedKey) {
  const absl::Time before = absl::Now();
  ASSERT_TRUE(stub_->Charge(&context_, request_, &reply_).ok());
  const auto arrivals = server_.arrivals();
  ASSERT_THAT(arrivals, SizeIs(1));
  ASSERT_THAT(arrivals[0].keys, SizeIs(1));
  const auto key = Uuid::Parse(arrivals[0].keys[0]);
  ASSERT_TRUE(key.has_value()) << arrivals[0].keys[0];
  const auto made_at = key->TimeOrderedAt();
  ASSERT_TRUE(made_at.has_value());
  EXPECT_GE(*made_at, before - absl::Milliseconds(1));
  EXPECT_LE(*made_at, absl::Now());
}

TEST_F(ClientInterceptorTest, EveryCallGetsAKeyOfItsOwn) {
  ASSERT_TRUE(stub_->Charge(&context_, request_, &reply_).ok());
  grpc::ClientContext second;
  ASSERT_TRUE(stub_->Charge(&second, request_, &reply_).ok());
  const auto arrivals = server_.arrivals();
  ASSERT_THAT(arrivals, SizeIs(2));
  EXPECT_NE(arrivals[0].keys, arrivals[1].keys);
}

TEST_F(ClientInterceptorTest, AnEmptyKeyFieldGetsAKeyInTheMetadata) {
  ASSERT_TRUE(stub_->Order(&context_, request_, &reply_).ok());
  const auto arrivals = server_.arrivals();
  ASSERT_THAT(arrivals, SizeIs(1));
  ASSERT_THAT(arrivals[0].keys, SizeIs(1));
  EXPECT_TRUE(Uuid::Parse(arrivals[0].keys[0]).has_value()) << arrivals[0].keys[0];
}

TEST_F(ClientInterceptorTest, AFilledKeyFieldIsTheOnlyKey) {
  request_.set_note("order-17");
  ASSERT_TRUE(stub_->Order(&context_, request_, &reply_).ok());
  const auto arrivals = server_.arrivals();
  ASSERT_THAT(arrivals, SizeIs(1));
  EXPECT_THAT(arrivals[0].keys, IsEmpty());
}

TEST_F(ClientInterceptorTest, MethodsThatMayRunTwiceGetNone) {
  ASSERT_TRUE(stub_->Balance(&context_, request_, &reply_).ok());
  grpc::ClientContext second;
  ASSERT_TRUE(stub_->SetLimit(&second, request_, &reply_).ok());
  const auto arrivals = server_.arrivals();
  ASSERT_THAT(arrivals, SizeIs(2));
  EXPECT_THAT(arrivals[0].keys, IsEmpty());
  EXPECT_THAT(arrivals[1].keys, IsEmpty());
}

TEST_F(ClientInterceptorTest, StreamsGetNone) {
  auto writer = stub_->ChargeMany(&context_, &reply_);
  writer->WritesDone();
  ASSERT_TRUE(writer->Finish().ok());
  grpc::ClientContext second;
  auto reader = stub_->Watch(&second, request_);
  ASSERT_FALSE(reader->Read(&reply_));
  ASSERT_TRUE(reader->Finish().ok());
  const auto arrivals = server_.arrivals();
  ASSERT_THAT(arrivals, SizeIs(2));
  EXPECT_THAT(arrivals[0].keys, IsEmpty());
  EXPECT_THAT(arrivals[1].keys, IsEmpty());
}

TEST_F(ClientInterceptorTest, APinnedKeyIsKept) {
  ASSERT_TRUE(WithKey(context_, "order-42").ok());
  ASSERT_TRUE(stub_->Charge(&context_, request_, &reply_).ok());
  const auto arrivals = server_.arrivals();
  ASSERT_THAT(arrivals, SizeIs(1));
  EXPECT_THAT(arrivals[0].keys, ElementsAre("order-42"));
}

TEST_F(ClientInterceptorTest, TheCallbackApiIsServedToo) {
  std::promise<grpc::Status> done;
  stub_->async()->Charge(&context_, &request_, &reply_,
                         [&](const grpc::Status& status) { done.set_value(status); });
  ASSERT_TRUE(done.get_future().get().ok());
  const auto arrivals = server_.arrivals();
  ASSERT_THAT(arrivals, SizeIs(1));
  EXPECT_THAT(arrivals[0].keys, SizeIs(1));
}

}  // namespace
}  // namespace idempotency::internal
