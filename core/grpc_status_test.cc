#include "grpc_idempotency/grpc_status.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/absl_view.h"
#include "core/status_payload.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

absl::Status InFlightAfter(absl::Duration delay) {
  ErrorDetails details;
  details.retry_delay = delay;
  details.metadata = {{"attempt", "3"}};
  return MakeError(Reason::kInFlight, "another attempt is running", details);
}

TEST(GrpcStatusTest, OkIsOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(GrpcStatusTest, ReasonAndDetailsSurviveTheRoundTrip) {
  const absl::Status error = InFlightAfter(absl::Milliseconds(250));
  const grpc::Status on_the_wire = ToGrpcStatus(error);
  EXPECT_EQ(on_the_wire.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(on_the_wire.error_message(), "another attempt is running");
  EXPECT_EQ(on_the_wire.error_details(),
            std::string(*error.GetPayload(AbslView(kStatusPayloadUrl))));
  const absl::Status back = FromGrpcStatus(on_the_wire);
  EXPECT_EQ(back, error);
  EXPECT_EQ(ReasonOf(back), Reason::kInFlight);
  EXPECT_EQ(DetailsOf(back).metadata.at("attempt"), "3");
}

TEST(GrpcStatusTest, EveryCodeKeepsItsNumber) {
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status(static_cast<grpc::StatusCode>(code), "m");
    EXPECT_EQ(static_cast<int>(FromGrpcStatus(status).code()), code);
    EXPECT_EQ(ToGrpcStatus(FromGrpcStatus(status)).error_code(), code);
    EXPECT_TRUE(ToGrpcStatus(FromGrpcStatus(status)).error_details().empty());
  }
  for (const int code : {-1, 17, 31}) {
    const grpc::Status status(static_cast<grpc::StatusCode>(code), "m");
    EXPECT_EQ(FromGrpcStatus(status).code(), absl::StatusCode::kUnknown);
  }
}

TEST(GrpcStatusTest, ANumberThatIsNoCodeIsUnknown) {
  constexpr int kMost = std::numeric_limits<int>::max();
  for (int number = 0; number <= 16; ++number) EXPECT_EQ(StatusCodeFrom(number), number);
  for (const int number : {-1, 17, 96, -kMost - 1, kMost}) {
    EXPECT_EQ(StatusCodeFrom(number), grpc::StatusCode::UNKNOWN);
  }
}

TEST(GrpcStatusTest, CodesAreNamedAsInGrpc) {
  EXPECT_EQ(StatusCodeName(grpc::StatusCode::OK), "OK");
  EXPECT_EQ(StatusCodeName(grpc::StatusCode::NOT_FOUND), "NOT_FOUND");
  EXPECT_EQ(StatusCodeName(grpc::StatusCode::UNAUTHENTICATED), "UNAUTHENTICATED");
  for (const int number : {-1, 17, 31}) {
    EXPECT_EQ(StatusCodeName(static_cast<grpc::StatusCode>(number)), "");
  }
}

TEST(GrpcStatusTest, UnreadableDetailsArePassedOn) {
  const grpc::Status foreign(grpc::StatusCode::NOT_FOUND, "m", std::string("\xFF\0\x01", 3));
  const absl::Status status = FromGrpcStatus(foreign);
  EXPECT_FALSE(ReasonOf(status).has_value());
  EXPECT_FALSE(PushbackOf(status).has_value());
  EXPECT_EQ(ToGrpcStatus(status).error_details(), foreign.error_details());
}

TEST(PushbackTest, WholeMillisecondsRoundedUpAndAtLeastOne) {
  EXPECT_EQ(PushbackOf(InFlightAfter(absl::Milliseconds(250))), "250");
  EXPECT_EQ(PushbackOf(InFlightAfter(absl::Microseconds(250'001))), "251");
  EXPECT_EQ(PushbackOf(InFlightAfter(absl::Nanoseconds(1))), "1");
  EXPECT_EQ(PushbackOf(InFlightAfter(absl::ZeroDuration())), "1");
  EXPECT_EQ(PushbackOf(InFlightAfter(absl::InfiniteDuration())), "2147483647");
}

TEST(PushbackTest, NoneWithoutARetryDelay) {
  EXPECT_FALSE(PushbackOf(MakeError(Reason::kKeyReused, "m")).has_value());
  EXPECT_FALSE(PushbackOf(absl::OkStatus()).has_value());
}

}  // namespace
}  // namespace idempotency::internal
