#include "client/retries/retry_pushback.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "client/testing/till_server.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "idempotency/wire/rpc_status.pb.h"

namespace idempotency::internal {
namespace {

class RetryPushbackTest : public ::testing::Test {
 protected:
  // The pushback that a caller reads from an answer with that status and trailer.
  RetryPushback Read(const grpc::Status& status, std::optional<std::string> pushback_ms) {
    server_.Script({{status, std::move(pushback_ms), false, false}});
    grpc::ClientContext context;
    testdata::ChargeRequest request;
    testdata::ChargeReply reply;
    const grpc::Status answer = stub_->Charge(&context, request, &reply);
    EXPECT_EQ(answer.error_code(), status.error_code());
    return RetryPushbackOf(answer, context);
  }
  static grpc::ChannelArguments NoRetries() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    return arguments;
  }
  static grpc::Status InFlight(absl::Duration retry_after) {
    ErrorDetails details;
    details.retry_delay = retry_after;
    return ToGrpcStatus(MakeError(Reason::kInFlight, "running", details));
  }

  const grpc::Status unavailable_{grpc::StatusCode::UNAVAILABLE, "away"};
  testdata::TillServer server_;
  const std::unique_ptr<testdata::Till::Stub> stub_ =
      testdata::Till::NewStub(server_.Dial(NoRetries()));
};

TEST_F(RetryPushbackTest, WithoutAPushback) {
  const RetryPushback pause = Read(unavailable_, std::nullopt);
  EXPECT_EQ(pause.least, absl::ZeroDuration());
  EXPECT_FALSE(pause.forbidden);
}

TEST_F(RetryPushbackTest, ThePushbackOfTheTrailer) {
  const RetryPushback pause = Read(unavailable_, "1500");
  EXPECT_EQ(pause.least, absl::Milliseconds(1500));
  EXPECT_FALSE(pause.forbidden);
}

TEST_F(RetryPushbackTest, APushbackThatIsNegativeOrNoNumberForbids) {
  for (const char* value : {"-1", "soon", "99999999999999999999"}) {
    EXPECT_TRUE(Read(unavailable_, value).forbidden) << value;
  }
}

TEST_F(RetryPushbackTest, APushbackOfNothingAllowsARetryAtOnce) {
  const RetryPushback pause = Read(unavailable_, "0");
  EXPECT_FALSE(pause.forbidden);
  EXPECT_EQ(pause.least, absl::ZeroDuration());
}

TEST_F(RetryPushbackTest, TheLongerOneCounts) {
  EXPECT_EQ(Read(InFlight(absl::Seconds(3)), "1000").least, absl::Seconds(3));
  EXPECT_EQ(Read(InFlight(absl::Seconds(3)), "5000").least, absl::Seconds(5));
}

TEST_F(RetryPushbackTest, RetryInfoOfAnyServiceCounts) {
  wire::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(7);
  info.mutable_retry_delay()->set_nanos(500'000'000);
  wire::Status details;
  google::protobuf::Any& any = *details.add_details();
  any.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  any.set_value(info.SerializeAsString());
  const grpc::Status status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                            details.SerializeAsString());
  EXPECT_EQ(Read(status, std::nullopt).least, absl::Milliseconds(7500));
  const grpc::Status torn(grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                          details.SerializeAsString() + "\xff");
  EXPECT_EQ(Read(torn, std::nullopt).least, absl::ZeroDuration());
}

TEST_F(RetryPushbackTest, DetailsThatAreNoneAreLeftOut) {
  const grpc::Status status(grpc::StatusCode::UNAVAILABLE, "away", "\xff\xff\xff");
  EXPECT_EQ(Read(status, std::nullopt).least, absl::ZeroDuration());
}

TEST_F(RetryPushbackTest, ACallThatWasNeverMadeHasNone) {
  grpc::ClientContext context;
  EXPECT_EQ(RetryPushbackOf(unavailable_, context).least, absl::ZeroDuration());
}

}  // namespace
}  // namespace idempotency::internal
