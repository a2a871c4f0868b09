#include "interceptors/ext_proc/exchange/exchange.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

using Event = Exchange::Event;
using Request = Exchange::Request;
using Response = Exchange::Response;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Exchange::Bounds kBounds{/*max_request_bytes=*/1000, /*max_reply_bytes=*/1000};

Request RequestHeaders(bool end_of_stream = false) {
  Request message;
  auto& header = *message.mutable_request_headers()->mutable_headers()->add_headers();
  header.set_key(":path");
  header.set_raw_value("/p.S/M");
  message.mutable_request_headers()->set_end_of_stream(end_of_stream);
  return message;
}

Request RequestBody(const std::string& body, bool end_of_stream) {
  Request message;
  message.mutable_request_body()->set_body(body);
  message.mutable_request_body()->set_end_of_stream(end_of_stream);
  return message;
}

Request RequestTrailers() {
  Request message;
  message.mutable_request_trailers();
  return message;
}

Request ReplyHeaders(bool end_of_stream = false) {
  Request message;
  auto& header = *message.mutable_response_headers()->mutable_headers()->add_headers();
  header.set_key(":status");
  header.set_raw_value("200");
  message.mutable_response_headers()->set_end_of_stream(end_of_stream);
  return message;
}

Request ReplyBody(const std::string& body, bool end_of_stream) {
  Request message;
  message.mutable_response_body()->set_body(body);
  message.mutable_response_body()->set_end_of_stream(end_of_stream);
  return message;
}

Request ReplyTrailers() {
  Request message;
  message.mutable_response_trailers();
  return message;
}

// "body:hello$": the kind of each message that is waiting for Envoy, with what it carries; '$' ends
// its direction.
std::vector<std::string> Taken(Exchange& exchange) {
  std::vector<std::string> taken;
  while (const auto response = exchange.TakeResponse()) {
    const auto streamed = [](const auto& part) {
      const auto& body = part.response().body_mutation().streamed_response();
      return body.body() + (body.end_of_stream() ? "$" : "");
    };
    switch (response->response_case()) {
      case Response::kRequestHeaders:
        taken.emplace_back("request headers");
        break;
      case Response::kRequestBody:
        taken.push_back("request body:" + streamed(response->request_body()));
        break;
      case Response::kRequestTrailers:
        taken.emplace_back("request trailers");
        break;
      case Response::kResponseHeaders:
        taken.emplace_back("reply headers");
        break;
      case Response::kResponseBody:
        taken.push_back("reply body:" + streamed(response->response_body()));
        break;
      case Response::kResponseTrailers:
        taken.emplace_back("reply trailers");
        break;
      case Response::kImmediateResponse:
        taken.push_back("immediate " +
                        std::to_string(response->immediate_response().status().code()));
        break;
      case Response::kStreamedImmediateResponse: {
        const auto& part = response->streamed_immediate_response();
        if (part.has_headers_response()) {
          taken.emplace_back(part.headers_response().end_of_stream() ? "headers$" : "headers");
        } else if (part.has_body_response()) {
          taken.push_back("body:" + part.body_response().body() +
                          (part.body_response().end_of_stream() ? "$" : ""));
        } else {
          taken.emplace_back("trailers");
        }
        break;
      }
      case Response::RESPONSE_NOT_SET:
        taken.emplace_back("nothing");
    }
  }
  return taken;
}

HttpMessage Answered(bool with_trailers) {
  HttpMessage response;
  response.headers.Add(":status", "409");
  response.body = "no";
  if (with_trailers) response.trailers.emplace();
  return response;
}

// An exchange whose request has been forwarded.
void Forwarded(Exchange& exchange) {
  ASSERT_EQ(exchange.OnMessage(RequestHeaders()), Event::kRequestHeaders);
  ASSERT_EQ(exchange.Hold(), Event::kNone);
  ASSERT_EQ(exchange.OnMessage(RequestBody("buy", true)), Event::kRequest);
  exchange.Forward({});
  ASSERT_THAT(Taken(exchange), ElementsAre("request headers", "request body:buy$"));
}

TEST(ExchangeTest, HoldsTheRequestAndTheReplyUntilTheyAreComplete) {
  Exchange exchange(kBounds);
  EXPECT_EQ(exchange.OnMessage(RequestHeaders()), Event::kRequestHeaders);
  EXPECT_EQ(exchange.Hold(), Event::kNone);
  EXPECT_EQ(exchange.OnMessage(RequestBody("bu", false)), Event::kNone);
  EXPECT_THAT(Taken(exchange), IsEmpty());
  EXPECT_EQ(exchange.OnMessage(RequestBody("y", true)), Event::kRequest);
  EXPECT_EQ(exchange.request().body, "buy");
  EXPECT_THAT(Taken(exchange), IsEmpty());
  EXPECT_FALSE(exchange.forwarded());

  exchange.Forward({});
  EXPECT_TRUE(exchange.forwarded());
  EXPECT_THAT(Taken(exchange), ElementsAre("request headers", "request body:buy$"));

  EXPECT_EQ(exchange.OnMessage(ReplyHeaders()), Event::kNone);
  EXPECT_EQ(exchange.OnMessage(ReplyBody("an", false)), Event::kNone);
  EXPECT_EQ(exchange.OnMessage(ReplyBody("swer", false)), Event::kNone);
  EXPECT_EQ(exchange.OnMessage(ReplyTrailers()), Event::kReply);
  EXPECT_EQ(exchange.reply().body, "answer");
  EXPECT_TRUE(exchange.has_reply());
  EXPECT_FALSE(exchange.over());
  EXPECT_THAT(Taken(exchange), IsEmpty());

  exchange.Release({}, {});
  EXPECT_TRUE(exchange.over());
  EXPECT_THAT(Taken(exchange), ElementsAre("reply headers", "reply body:answer", "reply trailers"));
  EXPECT_EQ(exchange.held_bytes(), 0U);
}

TEST(ExchangeTest, ARequestWithTrailersEndsWithThem) {
  Exchange exchange(kBounds);
  exchange.OnMessage(RequestHeaders());
  exchange.Hold();
  EXPECT_EQ(exchange.OnMessage(RequestBody("buy", false)), Event::kNone);
  EXPECT_EQ(exchange.OnMessage(RequestTrailers()), Event::kRequest);
  exchange.Forward({});
  EXPECT_THAT(Taken(exchange),
              ElementsAre("request headers", "request body:buy", "request trailers"));
}

TEST(ExchangeTest, ARequestWithoutBodyIsCompleteAtOnce) {
  Exchange exchange(kBounds);
  EXPECT_EQ(exchange.OnMessage(RequestHeaders(/*end_of_stream=*/true)), Event::kRequestHeaders);
  EXPECT_EQ(exchange.Hold(), Event::kRequest);
  exchange.Forward({});
  EXPECT_THAT(Taken(exchange), ElementsAre("request headers"));
}

// Envoy resets a stream that gets a part which it has not sent.
TEST(ExchangeTest, WithoutABodyNoneIsSent) {
  Exchange exchange(kBounds);
  exchange.OnMessage(RequestHeaders());
  exchange.Hold();
  EXPECT_EQ(exchange.OnMessage(RequestTrailers()), Event::kRequest);
  exchange.Forward({});
  EXPECT_THAT(Taken(exchange), ElementsAre("request headers", "request trailers"));
  exchange.OnMessage(ReplyHeaders());
  EXPECT_EQ(exchange.OnMessage(ReplyTrailers()), Event::kReply);
  exchange.Release({}, {});
  EXPECT_THAT(Taken(exchange), ElementsAre("reply headers", "reply trailers"));
}

TEST(ExchangeTest, AReplyOfHeadersOnlyIsHeldToo) {
  Exchange exchange(kBounds);
  Forwarded(exchange);
  EXPECT_EQ(exchange.OnMessage(ReplyHeaders(/*end_of_stream=*/true)), Event::kReply);
  EXPECT_THAT(Taken(exchange), IsEmpty());
  exchange.Release({}, {{"idempotency-record", "r"}});
  EXPECT_THAT(Taken(exchange), ElementsAre("reply headers"));
}

TEST(ExchangeTest, AnAnswerTakesThePlaceOfTheRequest) {
  Exchange exchange(kBounds);
  exchange.OnMessage(RequestHeaders());
  exchange.Hold();
  exchange.Answer(Answered(false), /*streamed=*/false);
  EXPECT_THAT(Taken(exchange), ElementsAre("immediate 409"));
  EXPECT_TRUE(exchange.over());
  // Sent before Envoy had the answer, and never forwarded.
  EXPECT_EQ(exchange.OnMessage(RequestBody("buy", true)), Event::kNone);
  exchange.Forward({});
  EXPECT_THAT(Taken(exchange), IsEmpty());
}

TEST(ExchangeTest, AStreamedAnswerHasBodyAndTrailers) {
  Exchange exchange(kBounds);
  exchange.OnMessage(RequestHeaders(/*end_of_stream=*/true));
  exchange.Hold();
  exchange.Answer(Answered(true), /*streamed=*/true);
  EXPECT_THAT(Taken(exchange), ElementsAre("headers", "body:no", "trailers"));
}

TEST(ExchangeTest, AnAnswerTakesThePlaceOfAHeldReply) {
  Exchange exchange(kBounds);
  Forwarded(exchange);
  exchange.OnMessage(ReplyHeaders());
  exchange.OnMessage(ReplyBody("answer", true));
  // Envoy takes none in this phase.
  exchange.Answer(Answered(true), /*streamed=*/true);
  EXPECT_THAT(Taken(exchange), IsEmpty());
  exchange.Answer(Answered(false), /*streamed=*/false);
  EXPECT_THAT(Taken(exchange), ElementsAre("immediate 409"));
  exchange.Release({}, {});
  EXPECT_THAT(Taken(exchange), IsEmpty());
}

TEST(ExchangeTest, ALargeReplyPassesButItsEnd) {
  Exchange exchange(kBounds);
  Forwarded(exchange);
  exchange.OnMessage(ReplyHeaders());
  const std::string part(1500, 'a');
  EXPECT_EQ(exchange.OnMessage(ReplyBody(part, false)), Event::kNone);
  EXPECT_TRUE(exchange.ReplyHasBegun());
  EXPECT_THAT(Taken(exchange), ElementsAre("reply headers", "reply body:" + part.substr(1)));
  EXPECT_EQ(exchange.OnMessage(ReplyBody("b", false)), Event::kNone);
  EXPECT_EQ(exchange.OnMessage(ReplyBody("c", true)), Event::kReply);
  EXPECT_THAT(Taken(exchange), ElementsAre("reply body:a"));
  // Too late for another one.
  exchange.Answer(Answered(false), /*streamed=*/false);
  EXPECT_THAT(Taken(exchange), IsEmpty());
  exchange.Release({}, {});
  EXPECT_THAT(Taken(exchange), ElementsAre("reply body:bc$"));
}

// As of an upstream with HTTP/1: with a content-length, the last byte is the end for the client.
TEST(ExchangeTest, TheLastByteOfALargeReplyIsHeldWithAnEndThatArrivesAlone) {
  Exchange exchange(kBounds);
  Forwarded(exchange);
  exchange.OnMessage(ReplyHeaders());
  exchange.OnMessage(ReplyBody(std::string(1500, 'a') + "z", false));
  EXPECT_EQ(exchange.OnMessage(ReplyBody("", true)), Event::kReply);
  EXPECT_THAT(Taken(exchange),
              ElementsAre("reply headers", "reply body:" + std::string(1500, 'a')));
  exchange.Release({}, {});
  EXPECT_THAT(Taken(exchange), ElementsAre("reply body:z$"));
}

TEST(ExchangeTest, AReplyThatIsNotHeldFromItsHeadersOnSendsNoBodyBeforeOneArrives) {
  Exchange exchange(kBounds);
  Forwarded(exchange);
  exchange.OnMessage(ReplyHeaders());
  exchange.StopHoldingReply();
  EXPECT_THAT(Taken(exchange), ElementsAre("reply headers"));
  exchange.OnMessage(ReplyBody("ab", false));
  EXPECT_THAT(Taken(exchange), ElementsAre("reply body:a"));
  EXPECT_EQ(exchange.OnMessage(ReplyTrailers()), Event::kReply);
  EXPECT_THAT(Taken(exchange), IsEmpty());
  exchange.Release({}, {});
  EXPECT_THAT(Taken(exchange), ElementsAre("reply body:b", "reply trailers"));
}

TEST(ExchangeTest, ARequestOverTheBoundIsNotHeld) {
  Exchange exchange(kBounds);
  exchange.OnMessage(RequestHeaders());
  exchange.Hold();
  EXPECT_EQ(exchange.OnMessage(RequestBody(std::string(2000, 'a'), false)),
            Event::kRequestTooLarge);
  exchange.Answer(Answered(false), /*streamed=*/false);
  EXPECT_EQ(exchange.OnMessage(RequestBody(std::string(2000, 'a'), false)), Event::kNone);
  Taken(exchange);
  EXPECT_EQ(exchange.held_bytes(), 0U);
}

// As a filter of the proxy that turns a caller's token into metadata.
Request RequestHeadersWithMetadata(std::size_t bytes) {
  Request message = RequestHeaders();
  google::protobuf::Struct& of_filter =
      (*message.mutable_metadata_context()->mutable_filter_metadata())["jwt"];
  (*of_filter.mutable_fields())["claim"].set_string_value(std::string(bytes, 'a'));
  return message;
}

TEST(ExchangeTest, AttributesAndMetadataCountAsTheRequest) {
  Exchange metadata(kBounds);
  metadata.OnMessage(RequestHeadersWithMetadata(2000));
  EXPECT_GE(metadata.held_bytes(), 2000U);
  EXPECT_EQ(metadata.Hold(), Event::kRequestTooLarge);

  Exchange attributes(kBounds);
  Request message = RequestHeaders();
  auto& fields = *(*message.mutable_attributes())["envoy.filters.http.ext_proc"].mutable_fields();
  fields["a"].set_string_value(std::string(2000, 'a'));
  attributes.OnMessage(message);
  EXPECT_GE(attributes.held_bytes(), 2000U);
  EXPECT_EQ(attributes.Hold(), Event::kRequestTooLarge);
}

TEST(ExchangeTest, AttributesAndMetadataAreNotKeptOnceTheRequestIsHeldOrPasses) {
  constexpr std::size_t kMetadata = 400;
  Exchange held(kBounds);
  held.OnMessage(RequestHeadersWithMetadata(kMetadata));
  EXPECT_EQ(held.Hold(), Event::kNone);
  EXPECT_LT(held.held_bytes(), kMetadata);
  EXPECT_FALSE(held.request_context().Metadata("jwt", {"claim"}).has_value());

  Exchange passing(kBounds);
  passing.OnMessage(RequestHeadersWithMetadata(kMetadata));
  passing.PassOn({});
  Taken(passing);
  EXPECT_EQ(passing.held_bytes(), 0U);
  EXPECT_FALSE(passing.request_context().Metadata("jwt", {"claim"}).has_value());

  Exchange answered(kBounds);
  answered.OnMessage(RequestHeadersWithMetadata(kMetadata));
  answered.Answer(Answered(false), /*streamed=*/false);
  Taken(answered);
  EXPECT_EQ(answered.held_bytes(), 0U);
}

TEST(ExchangeTest, AttributesOfTheReplyCountUntilItIsReleased) {
  Exchange exchange(kBounds);
  Forwarded(exchange);
  Request message = ReplyHeaders(/*end_of_stream=*/true);
  auto& fields = *(*message.mutable_attributes())["envoy.filters.http.ext_proc"].mutable_fields();
  fields["a"].set_string_value(std::string(2000, 'a'));
  exchange.OnMessage(message);
  EXPECT_GE(exchange.held_bytes(), 2000U);
  exchange.Release({}, {});
  Taken(exchange);
  EXPECT_EQ(exchange.held_bytes(), 0U);
}

TEST(ExchangeTest, EnvoysOwnAnswerBeforeTheRequestLeftPasses) {
  Exchange exchange(kBounds);
  exchange.OnMessage(RequestHeaders());
  exchange.Hold();
  exchange.OnMessage(RequestBody("buy", true));
  EXPECT_EQ(exchange.OnMessage(ReplyHeaders()), Event::kProxyReply);
  EXPECT_THAT(Taken(exchange), ElementsAre("reply headers"));
  exchange.Forward({});
  EXPECT_THAT(Taken(exchange), IsEmpty());
  EXPECT_FALSE(exchange.forwarded());
  exchange.OnMessage(ReplyBody("504", true));
  EXPECT_THAT(Taken(exchange), ElementsAre("reply body:504$"));
  EXPECT_TRUE(exchange.passed());
}

TEST(ExchangeTest, AReplyWithoutARequestPassesOnceThatIsDecided) {
  Exchange exchange(kBounds);
  EXPECT_EQ(exchange.OnMessage(ReplyHeaders()), Event::kReplyWithoutRequest);
  EXPECT_EQ(exchange.OnMessage(ReplyHeaders()), Event::kViolation);
  EXPECT_EQ(exchange.OnMessage(RequestHeaders()), Event::kViolation);
  EXPECT_EQ(exchange.OnMessage(ReplyBody("401", true)), Event::kViolation);
  EXPECT_THAT(Taken(exchange), IsEmpty());
  exchange.PassReplyOn();
  EXPECT_FALSE(exchange.passed());
  exchange.OnMessage(ReplyBody("401", true));
  EXPECT_TRUE(exchange.passed());
  EXPECT_FALSE(exchange.forwarded());
  EXPECT_THAT(Taken(exchange), ElementsAre("reply headers", "reply body:401$"));
  EXPECT_EQ(exchange.held_bytes(), 0U);

  Exchange of_headers_alone(kBounds);
  of_headers_alone.OnMessage(ReplyHeaders(/*end_of_stream=*/true));
  of_headers_alone.PassReplyOn();
  EXPECT_TRUE(of_headers_alone.passed());
  EXPECT_THAT(Taken(of_headers_alone), ElementsAre("reply headers"));
}

TEST(ExchangeTest, AnAnswerIsReplacedUnlessAPartHasLeft) {
  Exchange exchange(kBounds);
  exchange.OnMessage(RequestHeaders());
  exchange.Hold();
  exchange.ReplaceAnswer(HttpMessage());
  EXPECT_THAT(Taken(exchange), IsEmpty());
  exchange.OnMessage(RequestBody("buy", true));
  HttpMessage replay;
  replay.body = std::string(1000, 'x');
  exchange.Answer(replay, /*streamed=*/true);
  EXPECT_GE(exchange.held_bytes(), 1000U);
  exchange.ReplaceAnswer(HttpMessage());
  EXPECT_LT(exchange.held_bytes(), 1000U);
  EXPECT_TRUE(exchange.over());
  exchange.Forward({});
  EXPECT_FALSE(exchange.forwarded());
  EXPECT_TRUE(exchange.TakeResponse()->has_immediate_response());
  exchange.ReplaceAnswer(HttpMessage());
  EXPECT_THAT(Taken(exchange), IsEmpty());
}

TEST(ExchangeTest, AnUnguardedExchangePasses) {
  Exchange exchange(kBounds);
  exchange.OnMessage(RequestHeaders());
  exchange.PassOn({});
  exchange.OnMessage(RequestBody("a", false));
  exchange.OnMessage(ReplyHeaders());
  exchange.OnMessage(ReplyBody("b", false));
  exchange.OnMessage(RequestBody("c", true));
  EXPECT_FALSE(exchange.passed());
  exchange.OnMessage(ReplyTrailers());
  EXPECT_TRUE(exchange.passed());
  EXPECT_THAT(Taken(exchange), ElementsAre("request headers", "request body:a", "reply headers",
                                           "reply body:b", "request body:c$", "reply trailers"));
}

TEST(ExchangeTest, AWrongOrderIsAViolation) {
  for (const Request& first : {RequestBody("a", true), RequestTrailers(), ReplyBody("a", true),
                               ReplyTrailers(), Request()}) {
    Exchange exchange(kBounds);
    EXPECT_EQ(exchange.OnMessage(first), Event::kViolation) << first.ShortDebugString();
    EXPECT_THAT(Taken(exchange), IsEmpty());
  }
  Exchange headers_twice(kBounds);
  headers_twice.OnMessage(RequestHeaders());
  headers_twice.Hold();
  EXPECT_EQ(headers_twice.OnMessage(RequestHeaders()), Event::kViolation);

  Exchange after_the_end(kBounds);
  Forwarded(after_the_end);
  EXPECT_EQ(after_the_end.OnMessage(RequestBody("more", true)), Event::kViolation);
  EXPECT_EQ(after_the_end.OnMessage(RequestTrailers()), Event::kViolation);
  EXPECT_EQ(after_the_end.OnMessage(ReplyBody("early", true)), Event::kViolation);
  after_the_end.OnMessage(ReplyHeaders(/*end_of_stream=*/true));
  EXPECT_EQ(after_the_end.OnMessage(ReplyHeaders(/*end_of_stream=*/true)), Event::kViolation);
  EXPECT_EQ(after_the_end.OnMessage(ReplyBody("more", true)), Event::kViolation);
  after_the_end.Release({}, {});
  EXPECT_EQ(after_the_end.OnMessage(ReplyTrailers()), Event::kViolation);
}

}  // namespace
}  // namespace idempotency::internal
