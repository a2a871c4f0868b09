#include "interceptors/ext_proc/front/http_front.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "core/request_rules.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

using testing::HasSubstr;
using testing::Not;

HttpMessage Response(const std::string& status) {
  HttpMessage response;
  response.headers.Add(":status", status);
  response.headers.Add("content-type", "application/json");
  response.headers.Add("set-cookie", "a=1");
  response.headers.Add("set-cookie", "b=2");
  response.headers.Add("x-name", "M\xfcller");
  response.headers.Add("x!odd", "1");
  response.headers.Add("date", "now");
  response.headers.Add("x-envoy-upstream-service-time", "3");
  response.body = "{}";
  return response;
}

TEST(HttpFrontTest, AnyResponseIsRestored) {
  for (const char* status : {"200", "201", "302", "404", "422", "500"}) {
    const v1::Reply reply = HttpFront().Capture(Response(status), true);
    EXPECT_TRUE(ValidateReply(reply).ok()) << ValidateReply(reply);
    const HttpMessage restored = HttpFront().Restore(reply);
    EXPECT_EQ(restored.headers.OnlyValueOf(":status"), status);
    EXPECT_EQ(restored.headers.ValuesOf("set-cookie").size(), 2U);
    EXPECT_EQ(restored.headers.OnlyValueOf("x-name"), "M\xfcller");
    EXPECT_EQ(restored.headers.OnlyValueOf("x!odd"), "1");
    EXPECT_FALSE(restored.headers.Has("date"));
    EXPECT_FALSE(restored.headers.Has("x-envoy-upstream-service-time"));
    EXPECT_FALSE(restored.headers.Has(".http-status"));
    EXPECT_EQ(restored.body, "{}");
  }
}

// They are the first caller's alone.
TEST(HttpFrontTest, ARetryTimeAndListedHeadersAreNotStored) {
  HttpMessage response = Response("409");
  response.headers.Add("retry-after", "5");
  // Of the kind that metadata cannot have.
  response.headers.Add("set-cookie", "c=\xfc");
  response.trailers.emplace();
  response.trailers->Add("set-cookie", "d=4");
  const HttpFront front({"set-cookie"});
  const v1::Reply reply = front.Capture(response, /*whole=*/true);
  EXPECT_THAT(reply.SerializeAsString(), Not(HasSubstr("set-cookie")));
  const HttpMessage restored = front.Restore(reply);
  EXPECT_EQ(restored.headers.OnlyValueOf(":status"), "409");
  EXPECT_EQ(restored.headers.OnlyValueOf("content-type"), "application/json");
  EXPECT_FALSE(restored.headers.Has("retry-after"));
  EXPECT_FALSE(restored.headers.Has("set-cookie"));
  EXPECT_FALSE(restored.trailers.has_value());
}

// When to look for the outcome of what was accepted.
TEST(HttpFrontTest, ARetryTimeOfASuccessIsStored) {
  for (const auto& [status, stored] : {std::pair("202", true), std::pair("303", true),
                                       std::pair("404", false), std::pair("500", false)}) {
    HttpMessage response = Response(status);
    response.headers.Add("retry-after", "5");
    const HttpMessage restored = HttpFront().Restore(HttpFront().Capture(response, true));
    EXPECT_EQ(restored.headers.OnlyValueOf("retry-after").value_or(""), stored ? "5" : "")
        << status;
  }
}

TEST(HttpFrontTest, TheCodeOfARecordDecides) {
  const auto code = [](const char* status) {
    return HttpFront().Capture(Response(status), true).code();
  };
  EXPECT_EQ(code("200"), 0);
  EXPECT_EQ(code("303"), 0);
  EXPECT_EQ(code("400"), 3);
  EXPECT_EQ(code("404"), 5);
  EXPECT_EQ(code("409"), 6);
  // Never recorded by default: the effect may have happened.
  EXPECT_EQ(code("500"), 13);
  EXPECT_EQ(code("502"), 14);
  EXPECT_EQ(code("503"), 14);
  EXPECT_EQ(code("504"), 4);
  EXPECT_EQ(code("garbage"), 2);
}

// An upstream cannot choose the status of a replay by a header of ours.
TEST(HttpFrontTest, AnUpstreamsHeaderIsNotTheStatus) {
  HttpMessage response = Response("201");
  response.headers.Add(".http-status", "500");
  response.headers.Add(".http-header-bin", ":status: 500");
  const HttpMessage restored = HttpFront().Restore(HttpFront().Capture(response, true));
  EXPECT_EQ(restored.headers.OnlyValueOf(":status"), "201");
}

TEST(HttpFrontTest, ProblemsHaveStatusReasonAndRetryAfter) {
  const auto reject = [](Reason reason) {
    return HttpFront().Reject(MakeError(reason, "why \"so\""), "");
  };
  EXPECT_EQ(reject(Reason::kKeyMissing).headers.OnlyValueOf(":status"), "400");
  EXPECT_EQ(reject(Reason::kKeyInvalid).headers.OnlyValueOf(":status"), "400");
  EXPECT_EQ(reject(Reason::kKeyReused).headers.OnlyValueOf(":status"), "422");
  EXPECT_EQ(reject(Reason::kInFlight).headers.OnlyValueOf(":status"), "409");
  const HttpMessage unavailable = reject(Reason::kStoreUnavailable);
  EXPECT_EQ(unavailable.headers.OnlyValueOf(":status"), "503");
  EXPECT_EQ(unavailable.headers.OnlyValueOf("retry-after"), "1");
  EXPECT_EQ(unavailable.headers.OnlyValueOf("content-type"), "application/problem+json");
  EXPECT_THAT(unavailable.body, HasSubstr("\"reason\":\"STORE_UNAVAILABLE\""));
  EXPECT_THAT(unavailable.body, HasSubstr("why \\\"so\\\""));
  EXPECT_THAT(unavailable.body, HasSubstr("tag:grpc-idempotency.dev,2026:STORE_UNAVAILABLE"));
}

TEST(HttpFrontTest, RetryAfterIsRoundedUp) {
  ErrorDetails details;
  details.retry_delay = absl::Milliseconds(1200);
  EXPECT_EQ(HttpFront()
                .Reject(MakeError(Reason::kInFlight, "runs", details), "")
                .headers.OnlyValueOf("retry-after"),
            "2");
}

// It is not known which encodings the client of a replay accepts.
TEST(HttpFrontTest, OfACompressedReplyOnlyTheStatusIsKept) {
  for (const char* coding : {"gzip", "identity, br"}) {
    HttpMessage response = Response("201");
    response.headers.Add("content-encoding", coding);
    const v1::Reply reply = HttpFront().Capture(response, true);
    EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_STATUS_ONLY);
    EXPECT_EQ(HttpFront().Restore(reply).headers.OnlyValueOf(":status"), "201");
  }
  HttpMessage identity = Response("201");
  identity.headers.Add("content-encoding", "Identity");
  EXPECT_EQ(HttpFront().Capture(identity, true).body(), "{}");
}

TEST(HttpFrontTest, WithoutItsContentTheStatusIsLeft) {
  const v1::Reply reply = HttpFront().Capture(Response("404"), /*whole=*/false);
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_STATUS_ONLY);
  const HttpMessage restored = HttpFront().Restore(reply);
  EXPECT_EQ(restored.headers.OnlyValueOf(":status"), "404");
  EXPECT_THAT(restored.body, HasSubstr("REPLY_NOT_KEPT"));
}

// As of a guard behind this one, which kept its status alone.
TEST(HttpFrontTest, AReplayWithoutContentIsNoRefusal) {
  HttpMessage replay = HttpFront().Restore(HttpFront().Capture(Response("402"), /*whole=*/false));
  replay.headers.Add("idempotency-content", "status-only");
  EXPECT_EQ(HttpFront().Capture(replay, /*whole=*/true).details(), "");
}

TEST(HttpFrontTest, OfAReplyWithoutAValidStatusNothingIsRestored) {
  const HttpMessage restored = HttpFront().Restore(HttpFront().Capture(Response("garbage"), true));
  EXPECT_EQ(restored.headers.OnlyValueOf(":status"), "500");
  EXPECT_FALSE(restored.headers.Has("set-cookie"));
  EXPECT_THAT(restored.body, HasSubstr("REPLY_NOT_KEPT"));
}

// As `idempotencyctl resolve --outcome=completed` makes it.
TEST(HttpFrontTest, TheReplyOfAnAdministratorIsAResponse) {
  v1::Reply reply;
  reply.set_body("{\"id\":1}");
  v1::MetadataEntry& entry = *reply.add_initial_metadata();
  entry.set_key("content-type");
  entry.set_value("application/json");
  for (const v1::ReplyContent content : {v1::REPLY_CONTENT_UNSPECIFIED, v1::REPLY_CONTENT_FULL}) {
    reply.set_content(content);
    for (const auto& [message, status] :
         {std::pair("", "200"), std::pair("HTTP 201", "201"), std::pair("HTTP 404", "404"),
          std::pair("HTTP 600", "200"), std::pair("done", "200")}) {
      reply.set_message(message);
      const HttpMessage restored = HttpFront().Restore(reply);
      EXPECT_EQ(restored.headers.OnlyValueOf(":status"), status) << message;
      EXPECT_EQ(restored.headers.OnlyValueOf("content-type"), "application/json");
      EXPECT_EQ(restored.body, "{\"id\":1}");
      EXPECT_FALSE(restored.headers_only);
    }
  }
}

TEST(HttpFrontTest, TheCodeOfAnAdministratorIsAStatus) {
  v1::Reply reply;
  for (int code = 0; code <= 16; ++code) {
    reply.set_code(code);
    const HttpMessage restored = HttpFront().Restore(reply);
    EXPECT_TRUE(restored.headers_only);
    // UNKNOWN and DATA_LOSS have no status of their own.
    const int captured = HttpFront().Capture(restored, true).code();
    EXPECT_EQ(captured, code == 2 || code == 15 ? 13 : code);
  }
}

}  // namespace
}  // namespace idempotency::internal
