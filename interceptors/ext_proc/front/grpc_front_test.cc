#include "interceptors/ext_proc/front/grpc_front.h"

#include <string>

#include "gtest/gtest.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "interceptors/ext_proc/front/grpc_wire.h"

namespace idempotency::internal {
namespace {

HttpMessage Reply(const std::string& body) {
  HttpMessage response;
  response.headers.Add(":status", "200");
  response.headers.Add("content-type", "application/grpc");
  response.headers.Add("x-initial", "1");
  response.headers.Add("x-envoy-upstream-service-time", "3");
  response.headers.Add("idempotency-record", "another service's");
  response.body = body;
  response.trailers.emplace();
  response.trailers->Add("grpc-status", "0");
  response.trailers->Add("x-bytes-bin", "AAH/");
  return response;
}

std::string Framed(const std::string& message) {
  std::string body;
  AppendGrpcMessage(message, body);
  return body;
}

TEST(GrpcFrontTest, CapturesWhatAHandlerSet) {
  const v1::Reply reply = GrpcFront().Capture(Reply(Framed("hello")), /*whole=*/true);
  EXPECT_EQ(reply.code(), 0);
  EXPECT_EQ(reply.body(), "hello");
  ASSERT_EQ(reply.initial_metadata_size(), 1);
  EXPECT_EQ(reply.initial_metadata(0).key(), "x-initial");
  ASSERT_EQ(reply.trailing_metadata_size(), 1);
  EXPECT_EQ(reply.trailing_metadata(0).value(), std::string("\0\1\xff", 3));
}

TEST(GrpcFrontTest, ListedMetadataIsNotStored) {
  const GrpcFront front({"x-initial", "x-bytes-bin"});
  const v1::Reply reply = front.Capture(Reply(Framed("hello")), /*whole=*/true);
  EXPECT_EQ(reply.body(), "hello");
  EXPECT_EQ(reply.initial_metadata_size(), 0);
  EXPECT_EQ(reply.trailing_metadata_size(), 0);
}

TEST(GrpcFrontTest, AnEmptyMessageIsNotNoMessage) {
  EXPECT_TRUE(GrpcFront().Capture(Reply(Framed("")), true).has_body());
  EXPECT_FALSE(GrpcFront().Capture(Reply(""), true).has_body());
}

TEST(GrpcFrontTest, ARestoredReplyIsTheCapturedOne) {
  const v1::Reply reply = GrpcFront().Capture(Reply(Framed("hello")), true);
  const HttpMessage restored = GrpcFront().Restore(reply);
  EXPECT_EQ(GrpcFront().Capture(restored, true).SerializeAsString(), reply.SerializeAsString());
  EXPECT_EQ(restored.trailers->OnlyValueOf("x-bytes-bin"), "AAH/");
}

TEST(GrpcFrontTest, AnErrorIsTrailersOnly) {
  HttpMessage response;
  response.headers_only = true;
  response.headers.Add(":status", "200");
  response.headers.Add("grpc-status", "9");
  response.headers.Add("grpc-message", "100%25 kein%20Geld%0A %E2%82%AC");
  response.headers.Add("grpc-status-details-bin", "CAkSA25vIQ");
  const v1::Reply reply = GrpcFront().Capture(response, true);
  EXPECT_EQ(reply.code(), 9);
  EXPECT_EQ(reply.message(), "100% kein Geld\n \xe2\x82\xac");
  EXPECT_EQ(reply.details(), "\x08\x09\x12\x03no!");
  const HttpMessage restored = GrpcFront().Restore(reply);
  EXPECT_TRUE(restored.headers_only);
  EXPECT_EQ(restored.headers.OnlyValueOf("grpc-message"), "100%25 kein Geld%0A %E2%82%AC");
  EXPECT_EQ(restored.headers.OnlyValueOf("grpc-status-details-bin"), "CAkSA25vIQ");
}

// A handler that forwards another service's trailers and its status sends the details twice, and a
// proxy may join them.
TEST(GrpcFrontTest, DetailsThatCameTwiceAreRead) {
  HttpMessage response;
  response.headers_only = true;
  response.headers = HeaderList({{":status", "200"}, {"grpc-status", "9"}});
  response.headers.Add("grpc-status-details-bin", "CAkSA25vIQ");
  HttpMessage joined = response;
  response.headers.Add("grpc-status-details-bin", "CAkSA25vIQ");
  joined.headers = HeaderList({{":status", "200"},
                               {"grpc-status", "9"},
                               {"grpc-status-details-bin", "CAkSA25vIQ==,CAkSA25vIQ"}});
  for (const HttpMessage& twice : {response, joined}) {
    const v1::Reply reply = GrpcFront().Capture(twice, true);
    EXPECT_EQ(reply.code(), 9);
    EXPECT_EQ(reply.details(), "\x08\x09\x12\x03no!");
    EXPECT_EQ(GrpcFront().Restore(reply).headers.OnlyValueOf("grpc-status-details-bin"),
              "CAkSA25vIQ");
  }
}

TEST(GrpcFrontTest, OfSeveralDetailsAnErrorOfTheCatalogueCounts) {
  const std::string refusal =
      ToGrpcStatus(MakeError(Reason::kOutcomeUnknown, "of another guard")).error_details();
  HttpMessage response;
  response.headers_only = true;
  response.headers = HeaderList({{":status", "200"},
                                 {"grpc-status", "9"},
                                 {"grpc-status-details-bin", "CAkSA25vIQ"},
                                 {"grpc-status-details-bin", EncodeBinaryHeader(refusal)}});
  EXPECT_EQ(GrpcFront().Capture(response, true).details(), refusal);
}

TEST(GrpcFrontTest, AFailureWithUnreadableDetailsIsUnknown) {
  HttpMessage response;
  response.headers_only = true;
  response.headers =
      HeaderList({{":status", "200"}, {"grpc-status", "9"}, {"grpc-status-details-bin", "!"}});
  EXPECT_EQ(GrpcFront().Capture(response, true).code(), 2);
  response.headers =
      HeaderList({{":status", "200"}, {"grpc-status", "0"}, {"grpc-status-details-bin", "!"}});
  EXPECT_EQ(GrpcFront().Capture(response, true).code(), 0);
}

// Whatever is missing, an upstream's reply without a valid end is not an outcome.
TEST(GrpcFrontTest, AReplyWithoutAStatusIsUnknown) {
  HttpMessage no_status = Reply(Framed("hello"));
  no_status.trailers = HeaderList();
  EXPECT_EQ(GrpcFront().Capture(no_status, true).code(), 2);
  HttpMessage bad_status = Reply(Framed("hello"));
  bad_status.trailers = HeaderList({{"grpc-status", "17"}});
  EXPECT_EQ(GrpcFront().Capture(bad_status, true).code(), 2);
  HttpMessage cut = Reply(Framed("hello").substr(0, 7));
  EXPECT_EQ(GrpcFront().Capture(cut, true).code(), 2);
  HttpMessage html;
  html.headers_only = true;
  html.headers.Add(":status", "503");
  EXPECT_EQ(GrpcFront().Capture(html, true).code(), 2);
}

// As of a server that was lost between its last message and its trailers.
TEST(GrpcFrontTest, AStatusBeforeTheEndIsUnknown) {
  HttpMessage response = Reply(Framed("hello"));
  response.headers.Add("grpc-status", "0");
  response.trailers.reset();
  EXPECT_EQ(GrpcFront().Capture(response, true).code(), 2);
  EXPECT_EQ(GrpcFront().Capture(response, /*whole=*/false).code(), 2);
}

TEST(GrpcFrontTest, AStatusOfHttpOtherThan200IsUnknown) {
  for (const char* grpc_status : {"0", "9"}) {
    HttpMessage response = Reply(Framed("hello"));
    response.headers = HeaderList({{":status", "503"}, {"content-type", "application/grpc"}});
    response.trailers = HeaderList({{"grpc-status", grpc_status}});
    EXPECT_EQ(GrpcFront().Capture(response, true).code(), 2);
    HttpMessage only_headers;
    only_headers.headers_only = true;
    only_headers.headers = HeaderList({{":status", "503"}, {"grpc-status", grpc_status}});
    EXPECT_EQ(GrpcFront().Capture(only_headers, true).code(), 2);
  }
}

TEST(GrpcFrontTest, OfACompressedOrCutReplyOnlyTheStatusIsKept) {
  std::string compressed = Framed("hello");
  compressed[0] = 1;
  EXPECT_EQ(GrpcFront().Capture(Reply(compressed), true).content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_EQ(GrpcFront().Capture(Reply(""), /*whole=*/false).content(),
            v1::REPLY_CONTENT_STATUS_ONLY);
}

TEST(GrpcFrontTest, SeveralMessagesAreAStream) {
  const v1::Reply reply = GrpcFront().Capture(Reply(Framed("a") + Framed("b")), true);
  ASSERT_EQ(reply.stream_size(), 2);
  EXPECT_EQ(GrpcFront().Restore(reply).body, Framed("a") + Framed("b"));
}

TEST(GrpcFrontTest, ARejectionHasReasonAndDetails) {
  const HttpMessage rejection =
      GrpcFront().Reject(MakeError(Reason::kKeyMissing, "no key"), "record");
  EXPECT_TRUE(rejection.headers_only);
  EXPECT_EQ(rejection.headers.OnlyValueOf("grpc-status"), "3");
  EXPECT_EQ(rejection.headers.OnlyValueOf("idempotency-record"), "record");
  EXPECT_TRUE(rejection.headers.Has("grpc-status-details-bin"));
}

TEST(GrpcFrontTest, ARequestIsOneUncompressedMessage) {
  EXPECT_EQ(*UnaryMessage(Framed("x")), "x");
  EXPECT_EQ(*UnaryMessage(Framed("")), "");
  std::string compressed = Framed("x");
  compressed[0] = 1;
  for (const std::string& body :
       {std::string(), Framed("a") + Framed("b"), compressed, Framed("long").substr(0, 6),
        std::string("\2\0\0\0\0", 5), std::string("\0\xff\xff\xff\xff", 5)}) {
    EXPECT_EQ(ReasonOf(UnaryMessage(body).status()), Reason::kRequestInvalid);
  }
}

TEST(GrpcWireTest, TimeoutsAndContentTypes) {
  EXPECT_EQ(ParseGrpcTimeout("100m"), absl::Milliseconds(100));
  EXPECT_EQ(ParseGrpcTimeout("1H"), absl::Hours(1));
  for (const char* bad : {"", "5", "S", "-1S", "1x", "123456789S"}) {
    EXPECT_EQ(ParseGrpcTimeout(bad), absl::InfiniteDuration()) << bad;
  }
  EXPECT_TRUE(IsGrpcContentType("application/grpc"));
  EXPECT_TRUE(IsGrpcContentType("Application/grpc+proto; a=b"));
  for (const char* other :
       {"", "application/json", "application/grpc-web", "application/grpc+json"}) {
    EXPECT_FALSE(IsGrpcContentType(other)) << other;
  }
}

}  // namespace
}  // namespace idempotency::internal
