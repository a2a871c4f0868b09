#include "grpc_idempotency/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <limits>

#include "absl/strings/cord.h"

#include "core/absl_view.h"
#include "core/status_payload.h"
#include "idempotency/wire/rpc_status.pb.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

struct CatalogueLine {
  Reason reason;
  std::string_view name;
  absl::StatusCode code;
};

// Callers depend on the names and codes: a change here breaks them.
constexpr CatalogueLine kExpected[] = {
    {Reason::kKeyMissing, "KEY_MISSING", absl::StatusCode::kInvalidArgument},
    {Reason::kKeyInvalid, "KEY_INVALID", absl::StatusCode::kInvalidArgument},
    {Reason::kKeyReused, "KEY_REUSED", absl::StatusCode::kFailedPrecondition},
    {Reason::kKeyExpired, "KEY_EXPIRED", absl::StatusCode::kFailedPrecondition},
    {Reason::kInFlight, "IN_FLIGHT", absl::StatusCode::kAborted},
    {Reason::kOutcomeUnknown, "OUTCOME_UNKNOWN", absl::StatusCode::kFailedPrecondition},
    {Reason::kReservationLost, "RESERVATION_LOST", absl::StatusCode::kFailedPrecondition},
    {Reason::kOutcomeNotRecorded, "OUTCOME_NOT_RECORDED", absl::StatusCode::kUnavailable},
    {Reason::kReplyNotKept, "REPLY_NOT_KEPT", absl::StatusCode::kFailedPrecondition},
    {Reason::kStoreUnavailable, "STORE_UNAVAILABLE", absl::StatusCode::kUnavailable},
    {Reason::kQuotaExceeded, "QUOTA_EXCEEDED", absl::StatusCode::kResourceExhausted},
    {Reason::kOverloaded, "OVERLOADED", absl::StatusCode::kResourceExhausted},
    {Reason::kRequestInvalid, "REQUEST_INVALID", absl::StatusCode::kInvalidArgument},
    {Reason::kFingerprintUnknown, "FINGERPRINT_UNKNOWN", absl::StatusCode::kFailedPrecondition},
    {Reason::kRecordNotFound, "RECORD_NOT_FOUND", absl::StatusCode::kNotFound},
    {Reason::kRecordDamaged, "RECORD_DAMAGED", absl::StatusCode::kDataLoss},
    {Reason::kRecordIdCollision, "RECORD_ID_COLLISION", absl::StatusCode::kInternal},
    {Reason::kDownstreamRefused, "DOWNSTREAM_REFUSED", absl::StatusCode::kInternal},
    {Reason::kCredentialsInvalid, "CREDENTIALS_INVALID", absl::StatusCode::kUnauthenticated},
    {Reason::kAccessDenied, "ACCESS_DENIED", absl::StatusCode::kPermissionDenied},
    {Reason::kRecordChanged, "RECORD_CHANGED", absl::StatusCode::kFailedPrecondition},
    {Reason::kForceRequired, "FORCE_REQUIRED", absl::StatusCode::kFailedPrecondition},
};

absl::Status WithPayload(std::string_view bytes) {
  absl::Status status(absl::StatusCode::kAborted, "from elsewhere");
  status.SetPayload(AbslView(kStatusPayloadUrl), absl::Cord(AbslView(bytes)));
  return status;
}

TEST(ErrorsTest, TheCatalogue) {
  for (const CatalogueLine& line : kExpected) {
    EXPECT_EQ(ReasonName(line.reason), line.name);
    EXPECT_EQ(ReasonFromName(line.name), line.reason);
    EXPECT_EQ(CodeOf(line.reason), line.code);
    const absl::Status error = MakeError(line.reason, "what and why");
    EXPECT_EQ(error.code(), line.code);
    EXPECT_EQ(error.message(), "what and why");
    EXPECT_EQ(ReasonOf(error), line.reason);
  }
  EXPECT_FALSE(ReasonFromName("KEY_LOST").has_value());
  EXPECT_EQ(AllReasons().size(), std::size(kExpected));
}

TEST(ErrorsTest, DetailsSurvive) {
  ErrorDetails details;
  details.retry_delay = absl::Milliseconds(1500);
  details.violations = {{"lease", "too long"}, {"retention", "too short"}};
  details.metadata = {{"record", "017f"}, {"attempt", "2"}};
  const absl::Status error = MakeError(Reason::kInFlight, "wait", details);
  const ErrorDetails read = DetailsOf(error);
  EXPECT_EQ(read.retry_delay, absl::Milliseconds(1500));
  ASSERT_EQ(read.violations.size(), 2u);
  EXPECT_EQ(read.violations[1].field, "retention");
  EXPECT_EQ(read.violations[1].description, "too short");
  EXPECT_THAT(read.metadata, ElementsAre(Pair("attempt", "2"), Pair("record", "017f")));
}

TEST(ErrorsTest, ThePayloadIsAGoogleRpcStatus) {
  ErrorDetails details;
  details.retry_delay = absl::Seconds(2) + absl::Nanoseconds(5);
  details.violations = {{"lease", "too long"}};
  const absl::Status error = MakeError(Reason::kQuotaExceeded, "slow down", details);
  wire::Status payload;
  ASSERT_TRUE(payload.ParseFromString(std::string(*error.GetPayload(AbslView(kStatusPayloadUrl)))));
  EXPECT_EQ(payload.code(), 8);
  EXPECT_EQ(payload.message(), "slow down");
  ASSERT_EQ(payload.details_size(), 3);
  EXPECT_EQ(payload.details(0).type_url(), "type.googleapis.com/google.rpc.ErrorInfo");
  wire::ErrorInfo info;
  ASSERT_TRUE(info.ParseFromString(payload.details(0).value()));
  EXPECT_EQ(info.reason(), "QUOTA_EXCEEDED");
  EXPECT_EQ(info.domain(), "grpc-idempotency.dev");
  EXPECT_EQ(payload.details(1).type_url(), "type.googleapis.com/google.rpc.RetryInfo");
  wire::RetryInfo retry;
  ASSERT_TRUE(retry.ParseFromString(payload.details(1).value()));
  EXPECT_EQ(retry.retry_delay().seconds(), 2);
  EXPECT_EQ(retry.retry_delay().nanos(), 5);
  EXPECT_EQ(payload.details(2).type_url(), "type.googleapis.com/google.rpc.BadRequest");
}

TEST(ErrorsTest, RetryDelaysKeepToWhatTheWireCanSay) {
  ErrorDetails details;
  details.retry_delay = -absl::Seconds(3);
  EXPECT_EQ(DetailsOf(MakeError(Reason::kInFlight, "", details)).retry_delay, absl::ZeroDuration());
  details.retry_delay = absl::InfiniteDuration();
  EXPECT_EQ(DetailsOf(MakeError(Reason::kInFlight, "", details)).retry_delay,
            absl::Seconds(315'576'000'000));
}

TEST(ErrorsTest, TextThatIsNotUtf8CostsNoDetails) {
  ErrorDetails details;
  details.violations = {{"a\xFF", "b\xFF"}};
  details.metadata = {{"c\xFF", "d\xFF"}};
  const absl::Status error = MakeError(Reason::kRequestInvalid, "m\xFF", details);
  EXPECT_EQ(error.message(), "m?");
  EXPECT_EQ(ReasonOf(error), Reason::kRequestInvalid);
  EXPECT_EQ(DetailsOf(error).violations.at(0).description, "b?");
  EXPECT_THAT(DetailsOf(error).metadata, ElementsAre(Pair("c?", "d?")));
}

TEST(ErrorsTest, AnotherCodeKeepsTheReason) {
  const absl::Status error =
      MakeErrorWithCode(Reason::kReservationLost, absl::StatusCode::kAborted, "try again");
  EXPECT_EQ(error.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(error), Reason::kReservationLost);
}

TEST(ErrorsTest, InvalidFieldNamesTheField) {
  const absl::Status error = InvalidField("lease", "must be at least 10 ms");
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error.message(), "lease: must be at least 10 ms");
  EXPECT_EQ(ReasonOf(error), Reason::kRequestInvalid);
  EXPECT_EQ(DetailsOf(error).violations.at(0).field, "lease");
  EXPECT_EQ(DetailsOf(error).violations.at(0).description, "must be at least 10 ms");
}

TEST(ErrorsTest, StatusesFromElsewhereHaveNoReason) {
  wire::Status foreign;
  wire::ErrorInfo info;
  info.set_reason("KEY_MISSING");
  info.set_domain("example.com");
  foreign.add_details()->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  info.SerializeToString(foreign.mutable_details(0)->mutable_value());
  wire::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  foreign.add_details()->set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  retry.SerializeToString(foreign.mutable_details(1)->mutable_value());

  info.set_domain(std::string(kErrorDomain));
  info.set_reason("FROM_THE_FUTURE");
  wire::Status newer;
  newer.add_details()->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  info.SerializeToString(newer.mutable_details(0)->mutable_value());

  for (const absl::Status& status :
       {absl::OkStatus(), absl::UnavailableError("connection refused"), WithPayload("\xFF\xFF"),
        WithPayload(foreign.SerializeAsString()), WithPayload(newer.SerializeAsString())}) {
    EXPECT_FALSE(ReasonOf(status).has_value());
    const ErrorDetails details = DetailsOf(status);
    EXPECT_FALSE(details.retry_delay.has_value());
    EXPECT_THAT(details.violations, IsEmpty());
    EXPECT_THAT(details.metadata, IsEmpty());
  }
}

TEST(ErrorsTest, OursIsFoundAmongOthers) {
  wire::Status mixed;
  mixed.add_details()->set_type_url("type.googleapis.com/example.Other");
  // Cannot be parsed as its declared type.
  mixed.add_details()->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  mixed.mutable_details(1)->set_value("\xFF");
  wire::ErrorInfo info;
  info.set_domain(std::string(kErrorDomain));
  info.set_reason("IN_FLIGHT");
  mixed.add_details()->set_type_url("example.com/google.rpc.ErrorInfo");
  info.SerializeToString(mixed.mutable_details(2)->mutable_value());
  EXPECT_EQ(ReasonOf(WithPayload(mixed.SerializeAsString())), Reason::kInFlight);
}

}  // namespace
}  // namespace idempotency::internal
