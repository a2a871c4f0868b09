#include "interceptors/ext_proc/exchange/exchange.h"

#include <algorithm>
#include <utility>

#include "interceptors/ext_proc/exchange/responses.h"

namespace idempotency::internal {
namespace {

// The maximum part of the body in one message for Envoy. Envoy accepts larger ones; small enough
// that many streams share a connection fairly.
constexpr std::size_t kChunkBytes = 64 * 1024;

}  // namespace

Exchange::Event Exchange::OnMessage(Request message) {
  switch (message.request_case()) {
    case Request::kRequestHeaders:
      return phase_ == Phase::kStart ? OnRequestHeaders(message) : Event::kViolation;
    case Request::kRequestBody:
    case Request::kRequestTrailers:
      if (phase_ == Phase::kPassing) return OnPassing(message);
      // Sent before Envoy had the answer.
      if (phase_ == Phase::kAnswered) return Event::kNone;
      return phase_ == Phase::kHoldingRequest ? OnRequestPart(message) : Event::kViolation;
    case Request::kResponseHeaders:
      return OnReplyHeaders(message);
    case Request::kResponseBody:
    case Request::kResponseTrailers:
      if (phase_ == Phase::kPassing) return OnPassing(message);
      if (phase_ == Phase::kAnswered) return Event::kNone;
      return phase_ == Phase::kHoldingReply ? OnReplyPart(message) : Event::kViolation;
    case Request::REQUEST_NOT_SET:
      return Event::kViolation;
  }
  return Event::kViolation;
}

Exchange::Event Exchange::OnRequestHeaders(Request& message) {
  request_context_.Add(message);
  request_.headers = HeaderList(message.request_headers().headers());
  request_.headers_only = message.request_headers().end_of_stream();
  phase_ = Phase::kDeciding;
  return Event::kRequestHeaders;
}

Exchange::Event Exchange::Hold() {
  if (phase_ != Phase::kDeciding) return Event::kViolation;
  phase_ = Phase::kHoldingRequest;
  const std::size_t bytes = request_.bytes() + request_context_.bytes();
  request_context_ = {};
  if (bytes > bounds_.max_request_bytes) return Event::kRequestTooLarge;
  return request_.headers_only ? RequestComplete() : Event::kNone;
}

Exchange::Event Exchange::OnRequestPart(Request& message) {
  if (message.has_request_trailers()) {
    request_.trailers = HeaderList(message.request_trailers().trailers());
  } else {
    request_.body += message.request_body().body();
    request_.has_body = true;
  }
  if (request_.bytes() > bounds_.max_request_bytes) return Event::kRequestTooLarge;
  const bool ends = message.has_request_trailers() || message.request_body().end_of_stream();
  return ends ? RequestComplete() : Event::kNone;
}

Exchange::Event Exchange::RequestComplete() {
  phase_ = Phase::kRequestHeld;
  return Event::kRequest;
}

void Exchange::Forward(const std::vector<std::string>& remove_headers) {
  if (phase_ != Phase::kRequestHeld) return;
  phase_ = Phase::kForwarded;
  Send(RequestHeadersResponse(remove_headers));
  // Envoy resets a stream that gets a body which it has not sent.
  if (request_.has_body) {
    SendBody(/*of_reply=*/false, std::move(request_.body),
             /*end_of_stream=*/!request_.trailers.has_value());
  }
  if (request_.trailers.has_value()) Send(RequestTrailersResponse());
  request_ = {};
}

void Exchange::ForwardUnguarded(const std::vector<std::string>& remove_headers) {
  if (phase_ != Phase::kRequestHeld) return;
  Forward(remove_headers);
  phase_ = Phase::kPassing;
  request_ = {};
}

Exchange::Event Exchange::OnReplyHeaders(Request& message) {
  switch (phase_) {
    case Phase::kPassing:
      return OnPassing(message);
    case Phase::kAnswered:
      return Event::kNone;
    case Phase::kHoldingRequest:
    case Phase::kRequestHeld:
      // Nothing has left for the upstream: Envoy itself answers, at a timeout of its own perhaps.
      phase_ = Phase::kPassing;
      request_ = {};
      OnPassing(message);
      return Event::kProxyReply;
    case Phase::kStart:
    case Phase::kForwarded:
      break;
    default:
      return Event::kViolation;
  }
  reply_context_.Add(message);
  reply_.headers = HeaderList(message.response_headers().headers());
  reply_.headers_only = message.response_headers().end_of_stream();
  if (phase_ == Phase::kStart) {
    phase_ = Phase::kReplyAlone;
    return Event::kReplyWithoutRequest;
  }
  phase_ = Phase::kHoldingReply;
  return reply_.headers_only ? ReplyComplete() : Event::kNone;
}

Exchange::Event Exchange::OnReplyPart(Request& message) {
  if (message.has_response_trailers()) {
    reply_.trailers = HeaderList(message.response_trailers().trailers());
    return ReplyComplete();
  }
  reply_.body += message.response_body().body();
  reply_.has_body = true;
  if (message.response_body().end_of_stream()) return ReplyComplete();
  if (reply_begun_) {
    SendAllButLastByte();
  } else if (reply_.bytes() > bounds_.max_reply_bytes) {
    StopHoldingReply();
  }
  return Event::kNone;
}

void Exchange::StopHoldingReply() {
  if (phase_ != Phase::kHoldingReply || reply_begun_) return;
  reply_begun_ = true;
  Send(ReplyHeadersResponse({}, {}));
  SendAllButLastByte();
}

// The end of the stream may arrive alone, after the last byte. With a content-length, a client that
// has that byte has the whole reply.
void Exchange::SendAllButLastByte() {
  // Envoy resets a stream that gets a body which it has not sent.
  if (reply_.body.size() < 2) return;
  std::string last(1, reply_.body.back());
  reply_.body.pop_back();
  SendBody(/*of_reply=*/true, std::move(reply_.body), /*end_of_stream=*/false);
  reply_.body = std::move(last);
}

Exchange::Event Exchange::ReplyComplete() {
  phase_ = Phase::kReplyHeld;
  return Event::kReply;
}

void Exchange::Release(const std::vector<std::string>& remove,
                       const std::vector<HeaderList::Header>& add) {
  if (phase_ != Phase::kReplyHeld) return;
  phase_ = Phase::kReleased;
  const bool in_trailers = reply_.trailers.has_value();
  if (!reply_begun_) {
    Send(ReplyHeadersResponse(remove, in_trailers ? std::vector<HeaderList::Header>() : add));
  }
  // The whole body, or of a reply that has begun its last part.
  if (reply_.has_body && (!reply_begun_ || !in_trailers || !reply_.body.empty())) {
    SendBody(/*of_reply=*/true, std::move(reply_.body), /*end_of_stream=*/!in_trailers);
  }
  if (in_trailers) Send(ReplyTrailersResponse(remove, add));
  reply_ = {};
  reply_context_ = {};
}

void Exchange::PassOn(const std::vector<std::string>& remove_headers) {
  if (phase_ != Phase::kDeciding) return;
  phase_ = Phase::kPassing;
  Send(RequestHeadersResponse(remove_headers));
  request_ = {};
  request_context_ = {};
}

void Exchange::PassReplyOn() {
  if (phase_ != Phase::kReplyAlone) return;
  phase_ = Phase::kPassing;
  Send(ReplyHeadersResponse({}, {}));
  passed_ = reply_.headers_only;
  reply_ = {};
  reply_context_ = {};
}

Exchange::Event Exchange::OnPassing(Request& message) {
  switch (message.request_case()) {
    case Request::kRequestBody:
      SendBody(/*of_reply=*/false, std::move(*message.mutable_request_body()->mutable_body()),
               message.request_body().end_of_stream());
      break;
    case Request::kRequestTrailers:
      Send(RequestTrailersResponse());
      break;
    case Request::kResponseHeaders:
      Send(ReplyHeadersResponse({}, {}));
      passed_ = message.response_headers().end_of_stream();
      break;
    case Request::kResponseBody:
      SendBody(/*of_reply=*/true, std::move(*message.mutable_response_body()->mutable_body()),
               message.response_body().end_of_stream());
      passed_ = message.response_body().end_of_stream();
      break;
    case Request::kResponseTrailers:
      Send(ReplyTrailersResponse({}, {}));
      passed_ = true;
      break;
    default:
      return Event::kViolation;
  }
  return Event::kNone;
}

void Exchange::Answer(const HttpMessage& response, bool streamed) {
  const bool in_place_of_reply = phase_ >= Phase::kForwarded;
  if (phase_ == Phase::kStart || over() || phase_ == Phase::kPassing || reply_begun_) return;
  if (streamed && in_place_of_reply) return;
  phase_ = Phase::kAnswered;
  request_ = {};
  request_context_ = {};
  reply_ = {};
  reply_context_ = {};
  if (!streamed) {
    Send(ImmediateResponseOf(response));
    return;
  }
  const bool with_body = !response.body.empty();
  Send(StreamedHeadersOf(response, !with_body && !response.trailers.has_value()));
  for (std::size_t at = 0; at < response.body.size(); at += kChunkBytes) {
    const bool last = at + kChunkBytes >= response.body.size() && !response.trailers.has_value();
    Send(StreamedBodyOf(response.body.substr(at, kChunkBytes), last));
  }
  if (response.trailers.has_value()) Send(StreamedTrailersOf(*response.trailers));
}

void Exchange::ReplaceAnswer(const HttpMessage& response) {
  if (phase_ != Phase::kAnswered || answer_begun_) return;
  responses_.clear();
  response_bytes_ = 0;
  Send(ImmediateResponseOf(response));
}

void Exchange::SendBody(bool of_reply, std::string body, bool end_of_stream) {
  if (body.size() <= kChunkBytes) {
    Send(BodyResponseOf(of_reply, std::move(body), end_of_stream));
    return;
  }
  for (std::size_t at = 0; at < body.size(); at += kChunkBytes) {
    const bool last = at + kChunkBytes >= body.size();
    Send(BodyResponseOf(of_reply, body.substr(at, kChunkBytes), end_of_stream && last));
  }
}

void Exchange::Send(Response response) {
  response_bytes_ += response.ByteSizeLong();
  responses_.push_back(std::move(response));
}

std::optional<Exchange::Response> Exchange::TakeResponse() {
  if (responses_.empty()) return std::nullopt;
  answer_begun_ = phase_ == Phase::kAnswered;
  Response response = std::move(responses_.front());
  responses_.pop_front();
  response_bytes_ -= std::min(response_bytes_, response.ByteSizeLong());
  return response;
}

std::size_t Exchange::held_bytes() const {
  return request_.bytes() + request_context_.bytes() + reply_.bytes() + reply_context_.bytes() +
         response_bytes_;
}

}  // namespace idempotency::internal
