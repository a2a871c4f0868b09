#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_EXCHANGE_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_EXCHANGE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "envoy/service/ext_proc/v3/external_processor.pb.h"

#include "interceptors/ext_proc/exchange/http_message.h"
#include "interceptors/ext_proc/exchange/proxy_context.h"

namespace idempotency::internal {

// The order of messages of one HTTP exchange with Envoy, in the body mode FULL_DUPLEX_STREAMED: it
// holds the request until it is complete and may be forwarded, and the reply until it is complete
// and may be released. It decides nothing itself and does not depend on gRPC: messages go in,
// events and messages come out. Thread-compatible.
//
//   headers -> kRequestHeaders: Hold -> ... -> kRequest: Forward -> ... -> kReply: Release
//
// Answer() ends the exchange in place of Forward() or Release(); PassOn() in place of Hold() makes
// it unguarded. A call in another order than this is a programmer's error and does nothing.
class Exchange {
 public:
  using Request = envoy::service::ext_proc::v3::ProcessingRequest;
  using Response = envoy::service::ext_proc::v3::ProcessingResponse;

  struct Bounds {
    // The limit of a request: its headers, body and trailers together, as they are held. Its
    // headers must fit together with the attributes and metadata of the proxy too.
    std::size_t max_request_bytes = 0;
    // The limit of a reply. A larger one is passed on as it arrives, except for its end.
    std::size_t max_reply_bytes = 0;
  };

  enum class Event {
    kNone,
    // Decide by Hold(), PassOn() or Answer().
    kRequestHeaders,
    // The request is complete: Forward() or Answer().
    kRequest,
    // The held request is over its bound: Answer().
    kRequestTooLarge,
    // The reply is complete, and at least its end is held: Release() or Answer().
    kReply,
    // Envoy answered the client itself, before the request was forwarded: there is no decision
    // left.
    kProxyReply,
    // A reply to a request that this filter has not received: PassReplyOn(), if its context states
    // that the proxy itself made it, as filters before this one do.
    kReplyWithoutRequest,
    // The order of messages is not that of the protocol: the stream must end with an error.
    kViolation,
  };

  explicit Exchange(const Bounds& bounds) : bounds_(bounds) {}

  Event OnMessage(Request message);

  // Returns kRequest at once if the request has no body.
  Event Hold();
  // The request without these headers, and the reply, pass unguarded.
  void PassOn(const std::vector<std::string>& remove_headers);
  // The reply of kReplyWithoutRequest, unchanged.
  void PassReplyOn();
  // The request without these headers.
  void Forward(const std::vector<std::string>& remove_headers);
  // The same, and the reply passes unguarded.
  void ForwardUnguarded(const std::vector<std::string>& remove_headers);
  // The reply without `remove` and with `add`, which are added to its trailers if it has any, and
  // otherwise to its headers. If its headers have left already, those are not changed.
  void Release(const std::vector<std::string>& remove, const std::vector<HeaderList::Header>& add);
  // The client gets this response. `streamed` only before the request is forwarded: it takes any
  // size and trailers. One that is not streamed has no trailers.
  void Answer(const HttpMessage& response, bool streamed);
  // The client gets this response, not streamed, in place of that of Answer(). Nothing happens if a
  // part of the latter was taken.
  void ReplaceAnswer(const HttpMessage& response);
  // A part of the reply has left, and no other response can take its place.
  bool ReplyHasBegun() const { return reply_begun_; }
  // Passes on what is held of an incomplete reply, to free its memory, and then all but its last
  // byte and its end.
  void StopHoldingReply();

  const HttpMessage& request() const { return request_; }
  // Until Hold(), PassOn() or Answer().
  const ProxyContext& request_context() const { return request_context_; }
  // Without the part that has left.
  const HttpMessage& reply() const { return reply_; }
  // Until Release() or Answer().
  const ProxyContext& reply_context() const { return reply_context_; }

  // The request has been forwarded, so that the upstream may have acted on it.
  bool forwarded() const { return phase_ >= Phase::kForwarded && phase_ <= Phase::kReleased; }
  // A complete reply is held, or was.
  bool has_reply() const { return phase_ == Phase::kReplyHeld || phase_ == Phase::kReleased; }
  // Nothing more is expected than the end of the stream.
  bool over() const { return phase_ == Phase::kReleased || phase_ == Phase::kAnswered; }
  bool passes_on() const { return phase_ == Phase::kPassing; }
  // True if an unguarded exchange has received its whole reply.
  bool passed() const { return passed_; }

  // The next message for Envoy, in order; nullopt: none for now.
  std::optional<Response> TakeResponse();
  // The held messages are the request, or the request on its way to Envoy.
  bool holds_request() const { return phase_ <= Phase::kForwarded; }
  // Messages that are held, with what the proxy states about them, and those for Envoy.
  std::size_t held_bytes() const;
  // The latter alone.
  std::size_t response_bytes() const { return response_bytes_; }

 private:
  enum class Phase {
    kStart,
    // Headers have arrived.
    kDeciding,
    kHoldingRequest,
    kRequestHeld,
    kForwarded,
    kHoldingReply,
    kReplyHeld,
    kReleased,
    kAnswered,
    kPassing,
    // A reply has arrived, and no request.
    kReplyAlone,
  };

  Event OnRequestHeaders(Request& message);
  Event OnRequestPart(Request& message);
  Event OnReplyHeaders(Request& message);
  Event OnReplyPart(Request& message);
  Event OnPassing(Request& message);
  Event RequestComplete();
  Event ReplyComplete();
  void SendAllButLastByte();

  void SendBody(bool of_reply, std::string body, bool end_of_stream);
  void Send(Response response);

  const Bounds bounds_;
  Phase phase_ = Phase::kStart;
  bool reply_begun_ = false;
  bool passed_ = false;
  bool answer_begun_ = false;
  HttpMessage request_;
  ProxyContext request_context_;
  HttpMessage reply_;
  ProxyContext reply_context_;
  std::deque<Response> responses_;
  std::size_t response_bytes_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_EXCHANGE_H_
