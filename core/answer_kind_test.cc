#include "core/answer_kind.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

TEST(AnswerKindTest, OfEveryReason) {
  const std::map<Reason, AnswerKind> not_refused = {
      {Reason::kStoreUnavailable, AnswerKind::kNone},
      {Reason::kOutcomeNotRecorded, AnswerKind::kNone},
      {Reason::kOverloaded, AnswerKind::kBusy},
      {Reason::kQuotaExceeded, AnswerKind::kBusy},
      {Reason::kInFlight, AnswerKind::kBusy},
      {Reason::kCredentialsInvalid, AnswerKind::kBusy},
  };
  for (const Reason reason : AllReasons()) {
    const auto found = not_refused.find(reason);
    const AnswerKind expected = found == not_refused.end() ? AnswerKind::kRefused : found->second;
    EXPECT_EQ(KindOfAnswer(MakeError(reason, "text")), expected) << ReasonName(reason);
    // The reason decides, not the code that came with it.
    for (const auto code : {absl::StatusCode::kUnavailable, absl::StatusCode::kInvalidArgument}) {
      EXPECT_EQ(KindOfAnswer(MakeErrorWithCode(reason, code, "text")), expected)
          << ReasonName(reason);
    }
  }
}

TEST(AnswerKindTest, OfEveryCodeWithoutAReason) {
  const std::map<absl::StatusCode, AnswerKind> kinds = {
      {absl::StatusCode::kOk, AnswerKind::kDone},
      {absl::StatusCode::kCancelled, AnswerKind::kNone},
      {absl::StatusCode::kUnknown, AnswerKind::kNone},
      {absl::StatusCode::kInvalidArgument, AnswerKind::kRefused},
      {absl::StatusCode::kDeadlineExceeded, AnswerKind::kNone},
      {absl::StatusCode::kNotFound, AnswerKind::kRefused},
      {absl::StatusCode::kAlreadyExists, AnswerKind::kRefused},
      {absl::StatusCode::kPermissionDenied, AnswerKind::kRefused},
      {absl::StatusCode::kResourceExhausted, AnswerKind::kBusy},
      {absl::StatusCode::kFailedPrecondition, AnswerKind::kRefused},
      {absl::StatusCode::kAborted, AnswerKind::kBusy},
      {absl::StatusCode::kOutOfRange, AnswerKind::kRefused},
      {absl::StatusCode::kUnimplemented, AnswerKind::kRefused},
      {absl::StatusCode::kInternal, AnswerKind::kNone},
      {absl::StatusCode::kUnavailable, AnswerKind::kNone},
      {absl::StatusCode::kDataLoss, AnswerKind::kRefused},
      {absl::StatusCode::kUnauthenticated, AnswerKind::kRefused},
  };
  ASSERT_EQ(kinds.size(), 17u);
  for (const auto& [code, expected] : kinds) {
    EXPECT_EQ(KindOfAnswer(absl::Status(code, "text")), expected) << absl::StatusCodeToString(code);
    // As a connection reports it.
    ErrorDetails details;
    details.metadata[std::string(kStatusCodeDetail)] = absl::StrCat(static_cast<int>(code));
    EXPECT_EQ(KindOfAnswer(MakeError(Reason::kStoreUnavailable, "text", std::move(details))),
              expected == AnswerKind::kDone ? AnswerKind::kNone : expected)
        << absl::StatusCodeToString(code);
  }
}

TEST(AnswerKindTest, ARefusalOfTheCallerIsTemporaryAndOneOfItsRequestIsNot) {
  for (const Reason reason : AllReasons()) {
    const absl::Status status = MakeError(reason, "text");
    const bool of_the_caller =
        reason == Reason::kAccessDenied || reason == Reason::kCredentialsInvalid;
    EXPECT_EQ(RefusesCaller(status), of_the_caller) << status;
    EXPECT_EQ(IsTemporary(status), of_the_caller || KindOfAnswer(status) != AnswerKind::kRefused)
        << status;
  }
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "text");
    const bool refused = KindOfAnswer(status) == AnswerKind::kRefused;
    EXPECT_EQ(RefusesCaller(status), refused) << status;
    EXPECT_EQ(IsTemporary(status), !status.ok()) << status;
    // As a connection reports it.
    ErrorDetails details;
    details.metadata[std::string(kStatusCodeDetail)] = absl::StrCat(code);
    const absl::Status reported = MakeError(Reason::kStoreUnavailable, "text", std::move(details));
    EXPECT_EQ(RefusesCaller(reported), refused) << code;
    EXPECT_TRUE(IsTemporary(reported)) << code;
  }
}

TEST(AnswerKindTest, TheCodeOfAStatusWithoutAReasonIsKnownAlsoWhereItIsReplaced) {
  EXPECT_EQ(CodeWithoutReason(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(CodeWithoutReason(absl::ResourceExhaustedError("text")),
            absl::StatusCode::kResourceExhausted);
  ErrorDetails details;
  details.metadata[std::string(kStatusCodeDetail)] = "8";
  EXPECT_EQ(CodeWithoutReason(MakeError(Reason::kStoreUnavailable, "text", details)),
            absl::StatusCode::kResourceExhausted);
  // The service's own answers, also with the same code.
  EXPECT_EQ(CodeWithoutReason(MakeError(Reason::kOverloaded, "text", details)), std::nullopt);
  EXPECT_EQ(CodeWithoutReason(MakeError(Reason::kStoreUnavailable, "text")), std::nullopt);
  details.metadata[std::string(kStatusCodeDetail)] = "0";
  EXPECT_EQ(CodeWithoutReason(MakeError(Reason::kStoreUnavailable, "text", details)), std::nullopt);
}

TEST(AnswerKindTest, AnInvalidCodeProvesNothing) {
  for (const char* const code : {"", "five", "-1", "17", "99999999999999999999"}) {
    ErrorDetails details;
    details.metadata[std::string(kStatusCodeDetail)] = code;
    EXPECT_EQ(KindOfAnswer(MakeError(Reason::kStoreUnavailable, "text", std::move(details))),
              AnswerKind::kNone)
        << code;
  }
}

}  // namespace
}  // namespace idempotency::internal
