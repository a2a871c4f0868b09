#include "interceptors/ext_proc/service/guarded_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/record_key.h"
#include "interceptors/ext_proc/front/grpc_front.h"
#include "interceptors/ext_proc/front/grpc_wire.h"
#include "interceptors/ext_proc/front/http_front.h"
#include "interceptors/ext_proc/policy/call_identity.h"
#include "interceptors/ext_proc/request/header_rules.h"
#include "interceptors/ext_proc/request/scope_source.h"
#include "interceptors/ext_proc/service/proxy_outcome.h"
#include "interceptors/server/admission/rejection.h"
#include "interceptors/server/request/parent_metadata.h"
#include "interceptors/server/request/reserve_request.h"
#include "interceptors/server/wire/guard_errors.h"
#include "interceptors/server/wire/record_metadata.h"
#include "interceptors/server/wire/traceparent.h"

namespace idempotency::internal {
namespace {

// Envoy's default (max_headers_count): it replaces a reply with more by an empty 503.
constexpr std::size_t kMaxProxyHeaders = 100;
constexpr int kCancelled = static_cast<int>(grpc::StatusCode::CANCELLED);

// The reply of an exchange whose outcome is not known. CANCELLED, which is never recorded: its
// upstream may still work.
v1::Reply UnknownReply() {
  v1::Reply reply;
  reply.set_code(kCancelled);
  return reply;
}

absl::Status NotRecorded(absl::string_view what) {
  return MakeError(Reason::kOutcomeNotRecorded, {what.data(), what.size()});
}

absl::Status NoRoom() {
  return MakeError(
      Reason::kOverloaded,
      "the processor holds too many requests or replies: retry with the same idempotency key",
      RetryAfter(retry_delays::kServiceOverloaded));
}

absl::Status NoPlace(bool guarded) {
  return MakeError(
      Reason::kOverloaded,
      guarded
          ? "this scope has as many exchanges in progress as max_exchanges leaves it: retry with "
            "the same idempotency key"
          : "calls without a key have as many exchanges in progress as max_exchanges leaves them: "
            "retry",
      RetryAfter(retry_delays::kServiceOverloaded));
}

// So that no two spellings of one method have two records.
bool IsPlainMethodPath(std::string_view path) {
  for (const char c : path) {
    const bool plain =
        absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '/';
    if (!plain) return false;
  }
  return true;
}

}  // namespace

GuardedExchange::GuardedExchange(std::shared_ptr<const ProcessorSettings> settings,
                                 ExchangeBounds& bounds, ProcessorEvents& events)
    : settings_(std::move(settings)),
      bounds_(bounds),
      events_(events),
      exchange_({settings_->config.max_request_bytes, settings_->guard.max_reply_bytes}) {}

void GuardedExchange::OnMessage(Exchange::Request message) {
  if (end_.has_value()) return;
  Handle(exchange_.OnMessage(std::move(message)));
}

void GuardedExchange::OnUnreadableMessage() {
  Break(absl::InvalidArgumentError("a message is not a ProcessingRequest"));
}

void GuardedExchange::Handle(Exchange::Event event) {
  switch (event) {
    case Exchange::Event::kNone:
      return;
    case Exchange::Event::kRequestHeaders:
      return OnRequestHeaders();
    case Exchange::Event::kRequest:
      return OnRequest();
    case Exchange::Event::kRequestTooLarge:
      return Reject(InvalidField(
          "request", absl::StrCat("is larger than the ", settings_->config.max_request_bytes,
                                  " bytes of max_request_bytes")));
    case Exchange::Event::kReply:
      return OnReply();
    case Exchange::Event::kProxyReply:
      return Count(ExchangeResult::kRefused);
    case Exchange::Event::kReplyWithoutRequest:
      return OnReplyWithoutRequest();
    case Exchange::Event::kViolation:
      return Break(absl::InternalError(
          "the order of messages is not that of a proxy with FULL_DUPLEX_STREAMED bodies"));
  }
}

void GuardedExchange::Count(ExchangeResult result) {
  if (!std::exchange(counted_, true)) events_.Ended(result);
}

void GuardedExchange::CountUnconfigured(ExchangeResult result, const absl::Status& why) {
  events_.RefusedUnconfigured(why.message());
  Count(result);
}

void GuardedExchange::OnRequestHeaders() {
  const HeaderList& headers = exchange_.request().headers;
  is_grpc_ = IsGrpcContentType(headers.OnlyValueOf("content-type").value_or(""));
  front_ = is_grpc_ ? static_cast<const Front*>(&settings_->grpc_front) : &settings_->http_front;
  if (const absl::Status identified = Identify(); !identified.ok()) return Reject(identified);
  const bool without_key =
      !headers.Has(kKeyMetadata) && (!route_->key_field.has_value() || !is_grpc_);
  const bool unguarded = route_->policy.key == MethodPolicy::Key::kNone ||
                         (route_->policy.key == MethodPolicy::Key::kOptional && without_key);
  if (unguarded) {
    if (!EnterShare("")) return RejectOverloaded(NoPlace(/*guarded=*/false));
    Count(ExchangeResult::kPassed);
    return exchange_.PassOn(RemovedFromRequest(headers));
  }
  // Before the body arrives: the caller learns it at once, and nothing is held for it.
  if (const auto key = is_grpc_ ? GrpcKey(*route_, headers, nullptr) : HttpKey(*route_, headers);
      !key.ok() && (without_key || ReasonOf(key.status()) == Reason::kKeyInvalid)) {
    return Reject(key.status());
  }
  absl::StatusOr<std::string> scope =
      ScopeFrom(settings_->config.scope, exchange_.request_context(), headers);
  if (!scope.ok()) {
    if (!absl::IsUnauthenticated(scope.status())) return Reject(scope.status());
    if (StatesCallers(settings_->config.scope, exchange_.request_context())) {
      CountUnconfigured(ExchangeResult::kUnscoped, scope.status());
    } else {
      events_.Misconfigured(scope.status().message());
    }
    return Reject(scope.status());
  }
  scope_ = *std::move(scope);
  share_ = ShareFrom(settings_->config.scope, exchange_.request_context(), headers, scope_);
  if (!EnterShare(share_)) return RejectOverloaded(NoPlace(/*guarded=*/true));
  Handle(exchange_.Hold());
}

bool GuardedExchange::EnterShare(const std::string& share) {
  std::optional<ExchangeBounds::Place> place = bounds_.TryEnterScope(share);
  if (!place.has_value()) return false;
  place_.emplace(*std::move(place));
  return true;
}

absl::Status GuardedExchange::Identify() {
  const HeaderList& headers = exchange_.request().headers;
  if (!exchange_.request_context().full_duplex()) {
    const absl::string_view what =
        "the proxy's processing_mode must have FULL_DUPLEX_STREAMED bodies of requests and "
        "responses, and not be in observability_mode";
    events_.Misconfigured(what);
    return absl::InternalError(what);
  }
  if (const absl::Status allowed = CheckRequestHeaders(headers); !allowed.ok()) {
    return allowed;
  }
  const std::string_view path = *headers.OnlyValueOf(":path");
  const std::string_view method = *headers.OnlyValueOf(":method");
  if (is_grpc_ && !IsPlainMethodPath(path)) {
    return InvalidField(":path", "must be /SERVICE/METHOD, without a query");
  }
  const absl::StatusOr<const GuardedRoute*> route =
      is_grpc_ ? settings_->routes->ForGrpc(path) : settings_->routes->ForHttp(method, path);
  if (!route.ok()) {
    if (absl::Status wrong = CheckSpelling(method, path); !wrong.ok()) return wrong;
    CountUnconfigured(ExchangeResult::kUnconfigured, route.status());
    return route.status();
  }
  route_ = *route;
  operation_ = route_->operation.empty() ? std::string(path) : route_->operation;
  return absl::OkStatus();
}

absl::Status GuardedExchange::CheckSpelling(std::string_view method, std::string_view path) const {
  const RouteTable& routes = *settings_->routes;
  const bool names_grpc = routes.NamesGrpcMethod(path);
  const bool names_http = routes.NamesHttpRequest(method, path);
  if (is_grpc_ ? names_grpc : names_http) {
    return InvalidField(":path", "is another spelling of a guarded path or of its method");
  }
  if (names_grpc) return InvalidField("content-type", "must be application/grpc for this method");
  if (names_http) return InvalidField("content-type", "must not be that of gRPC for this path");
  return absl::OkStatus();
}

void GuardedExchange::OnRequest() {
  absl::StatusOr<Admit> admit = MakeAdmit();
  if (ReasonOf(admit.status()) == Reason::kKeyMissing &&
      route_->policy.key == MethodPolicy::Key::kOptional) {
    // Its key would have been in the request.
    Count(ExchangeResult::kPassed);
    return exchange_.ForwardUnguarded(RemovedFromRequest(exchange_.request().headers));
  }
  if (ReasonOf(admit.status()) == Reason::kOverloaded) return RejectOverloaded(admit.status());
  if (!admit.ok()) return Reject(admit.status());
  deciding_ = true;
  tasks_.emplace_back(*std::move(admit));
}

absl::StatusOr<GuardedExchange::Admit> GuardedExchange::MakeAdmit() {
  const HttpMessage& request = exchange_.request();
  absl::StatusOr<std::string> key = std::string();
  std::vector<Fingerprint> fingerprints;
  if (is_grpc_) {
    const absl::StatusOr<ExchangeBounds::Share> room = RoomForFields();
    if (!room.ok()) return room.status();
    const absl::StatusOr<GrpcCall> call = ReadGrpcCall(*route_, request.body);
    if (!call.ok()) return call.status();
    key = GrpcKey(*route_, request.headers, call->message.get());
    absl::StatusOr<std::vector<Fingerprint>> made =
        GrpcFingerprints(*route_, operation_, request.headers, *call);
    if (!made.ok()) return made.status();
    fingerprints = *std::move(made);
  } else {
    key = HttpKey(*route_, request.headers);
    fingerprints = HttpFingerprints(*route_, request);
  }
  if (!key.ok()) return key.status();
  RecordKey record_key{settings_->config.name_space, scope_, operation_, *std::move(key)};
  if (const absl::Status valid = ValidateRecordKey(record_key); !valid.ok()) return valid;
  Admit admit{*route_, MakeReserveRequest(std::move(record_key), std::move(fingerprints))};
  admit.route.operation = operation_;
  if (const auto trace = request.headers.OnlyValueOf(kTraceparentName);
      trace.has_value() && IsTraceparent(*trace)) {
    (*admit.request->mutable_labels())[std::string(kTraceparentName)] = std::string(*trace);
  }
  if (const auto parent = request.headers.OnlyValueOf(kParentMetadata); parent.has_value()) {
    if (auto named = ParentFrom(DecodeBinaryHeader(*parent).value_or("")); named.has_value()) {
      *admit.request->mutable_parent() = *std::move(named);
    }
  }
  if (const auto timeout = request.headers.OnlyValueOf("grpc-timeout"); timeout.has_value()) {
    admit.timeout = ParseGrpcTimeout(*timeout);
  }
  return admit;
}

absl::StatusOr<ExchangeBounds::Share> GuardedExchange::RoomForFields() {
  const std::string& body = exchange_.request().body;
  // Fields that take no more than the body are as good as counted with it.
  const std::size_t most =
      std::min(ExchangeBounds::kMaxFieldBytesPerByte * settings_->config.max_request_bytes,
               std::max(body.size(), bounds_.MostBeside(held())));
  const absl::StatusOr<std::size_t> bytes = ParsedFieldBytes(*route_, body, most);
  if (!bytes.ok()) return bytes.status();
  const std::size_t counted = *bytes > body.size() ? *bytes : 0;
  std::optional<ExchangeBounds::Share> room =
      bounds_.TryShare({share_, ExchangeBounds::Held::Kind::kRequest, counted});
  if (!room.has_value()) return NoRoom();
  return *std::move(room);
}

void GuardedExchange::OnDecision(Admission::Decision decision) {
  deciding_ = false;
  const bool wanted = !end_.has_value() && !exchange_.over() && !exchange_.passes_on();
  if (auto* granted = std::get_if<Admission::Granted>(&decision)) {
    if (wanted) return Forward(std::move(granted->execution));
    settling_ = Settling::kNothing;
    tasks_.emplace_back(ReleaseWithoutEffect{std::move(granted->execution),
                                             "the call ended before it was forwarded"});
    return;
  }
  if (!wanted) return;
  if (const auto* replayed = std::get_if<Admission::Replayed>(&decision)) {
    return Replay(replayed->reply.Whole());
  }
  const auto& refused = std::get<Admission::Refused>(decision);
  Reject(refused.why, refused.record_id);
}

void GuardedExchange::Forward(std::shared_ptr<LiveExecution> execution) {
  if (execution->lost()) {
    Reject(ReservationLost(), execution->record_id());
    settling_ = Settling::kNothing;
    tasks_.emplace_back(ReleaseWithoutEffect{std::move(execution),
                                             "the lease expired before the request was forwarded"});
    return;
  }
  execution_ = std::move(execution);
  exchange_.Forward(RemovedFromRequest(exchange_.request().headers));
}

// A filter before this one has refused the request, a filter that authenticates perhaps. What an
// upstream has answered must not pass: its request was not guarded.
void GuardedExchange::OnReplyWithoutRequest() {
  switch (OriginOf(exchange_.reply_context())) {
    case ResponseOrigin::kNotSent:
    case ResponseOrigin::kProxy:
      Count(ExchangeResult::kRefused);
      return exchange_.PassReplyOn();
    case ResponseOrigin::kUpstream:
    case ResponseOrigin::kUnstated: {
      const absl::string_view what =
          "a reply arrived without its request: the proxy's processing_mode must send request "
          "headers, and its response_attributes must list response.code_details";
      events_.Misconfigured(what);
      return Break(absl::InternalError(what));
    }
  }
}

void GuardedExchange::OnReply() {
  switch (OriginOf(exchange_.reply_context())) {
    case ResponseOrigin::kUpstream:
      settling_ = Settling::kReply;
      tasks_.emplace_back(
          Settle{execution_, front_->Capture(exchange_.reply(), !exchange_.ReplyHasBegun()), ""});
      return;
    case ResponseOrigin::kNotSent:
      settling_ = Settling::kProxysReply;
      Count(ExchangeResult::kNotSent);
      tasks_.emplace_back(
          ReleaseWithoutEffect{execution_, "the proxy could not reach the upstream"});
      return;
    case ResponseOrigin::kProxy:
      return SettleUnknown(Settling::kProxysReply,
                           "the proxy answered in place of the upstream: the outcome is unknown");
    case ResponseOrigin::kUnstated:
      proxy_misconfigured_ = true;
      events_.Misconfigured(
          "a proxy does not state whether the upstream answered, so nothing of it can be recorded: "
          "its response_attributes must list response.code_details");
      return SettleUnknown(Settling::kUnstated,
                           "the proxy does not state who answered: the outcome is unknown");
  }
}

void GuardedExchange::SettleUnknown(Settling settling, const std::string& reason) {
  settling_ = settling;
  Count(ExchangeResult::kUnknown);
  tasks_.emplace_back(Settle{execution_, UnknownReply(), reason});
}

void GuardedExchange::OnSettled(const Settlement::Outcome& outcome) {
  const Settling settled = std::exchange(settling_, Settling::kNothing);
  if (settled == Settling::kReply) {
    Count(outcome.error.ok() && outcome.unrecorded.ok() ? ExchangeResult::kForwarded
                                                        : ExchangeResult::kNotRecorded);
  }
  if (end_.has_value() || settled == Settling::kNothing) return;
  if (settled == Settling::kUnstated) {
    return Reject(NotRecorded("the proxy does not state who answered, so the outcome could not be "
                              "recorded; it is unknown"),
                  execution_->record_id());
  }
  if (settled == Settling::kProxysReply || outcome.error.ok()) return SendReply(outcome);
  Reject(outcome.error, execution_->record_id());
}

void GuardedExchange::SendReply(const Settlement::Outcome& outcome) {
  std::vector<std::string> removed = RemovedFromReply(exchange_.reply().headers);
  if (exchange_.reply().trailers.has_value()) {
    for (std::string& name : RemovedFromReply(*exchange_.reply().trailers)) {
      removed.push_back(std::move(name));
    }
  }
  MetadataEntries added = RecordMetadata(execution_->record_id(), outcome.expires_at, false);
  // A retry of a failure would reach the upstream again; gRPC ignores it with OK.
  if (is_grpc_ && (!outcome.unrecorded.ok() || WouldRunAgain(outcome.error))) {
    added.emplace_back(kPushbackMetadata, kNoRetryPushback);
  }
  const HttpMessage& reply = exchange_.reply();
  const HeaderList& extended = reply.trailers.has_value() ? *reply.trailers : reply.headers;
  if (extended.all().size() + added.size() > kMaxProxyHeaders) added.clear();
  exchange_.Release(removed, added);
}

void GuardedExchange::Replay(const v1::Reply& reply) {
  HttpMessage response = front_->Restore(reply);
  if (settings_->config.streams_replays && !is_grpc_ &&
      response.headers.ValuesOf("set-cookie").size() > 1) {
    // A streamed response has one cookie. HTTP permits to discard trailers, and no cookie.
    response.trailers.reset();
  }
  const bool must_stream = response.trailers.has_value() || (is_grpc_ && !response.headers_only);
  // To Envoy a response in one message is an answer of its own: it adds a content type, and changes
  // status, message and body as its local_reply_config states. A repeated header stays so only in
  // one message.
  const bool streamed = must_stream || !response.headers.HasRepeatedName();
  if (must_stream && !settings_->config.streams_replays) {
    return Reject(ReplyNotKept(reply.code()));
  }
  if (streamed && !is_grpc_ && !response.body.empty() && !response.trailers.has_value()) {
    // Envoy adds it only to a response in one message.
    response.headers.Add("content-length", absl::StrCat(response.body.size()));
  }
  replays_ = true;
  exchange_.Answer(response, streamed && settings_->config.streams_replays);
}

void GuardedExchange::Reject(const absl::Status& why, const std::string& record_id) {
  if (front_ == nullptr || exchange_.over() || exchange_.passes_on() || exchange_.ReplyHasBegun()) {
    return Break(why);
  }
  Count(ExchangeResult::kRefused);
  exchange_.Answer(front_->Reject(why, record_id), /*streamed=*/false);
}

void GuardedExchange::RejectOverloaded(const absl::Status& why) {
  Count(ExchangeResult::kOverloaded);
  Reject(why);
}

void GuardedExchange::Break(const absl::Status& why) {
  if (end_.has_value()) return;
  end_ = why.ok() ? absl::InternalError("ended early") : why;
  LeaveOpen("the processor ended the exchange before its reply was complete");
  Count(ExchangeResult::kBroken);
}

// The effect of the upstream is not known.
void GuardedExchange::LeaveOpen(const std::string& reason) {
  if (execution_ == nullptr || !exchange_.forwarded() || exchange_.has_reply() ||
      settling_ != Settling::kNo) {
    return;
  }
  SettleUnknown(Settling::kNothing, reason);
}

void GuardedExchange::OnEndOfStream() {
  if (end_.has_value()) return;
  if (exchange_.over() || (exchange_.passes_on() && exchange_.passed())) {
    // The proxy left before it took the replay, perhaps.
    if (replays_) Count(ExchangeResult::kBroken);
    end_ = absl::OkStatus();
    return;
  }
  LeaveOpen("the call ended before its reply was complete: its caller or its proxy gave up");
  if (!deciding_ && execution_ == nullptr) Count(ExchangeResult::kBroken);
  end_ = absl::CancelledError("the exchange ended before it was over");
}

void GuardedExchange::Refuse(const absl::Status& why) {
  if (CanRefuse()) Reject(why);
}

bool GuardedExchange::CanRefuse() const {
  return !end_.has_value() && !exchange_.over() && !exchange_.passes_on() && !exchange_.forwarded();
}

void GuardedExchange::OnNoRoom() {
  if (exchange_.forwarded()) {
    exchange_.StopHoldingReply();
    return;
  }
  if (!std::exchange(replays_, false)) {
    if (CanRefuse()) RejectOverloaded(NoRoom());
    return;
  }
  Count(ExchangeResult::kOverloaded);
  // Callers that do not read their replays must not take the room of others.
  exchange_.ReplaceAnswer(front_->Reject(NoRoom(), /*record_id=*/""));
}

ExchangeBounds::Held GuardedExchange::held() const {
  using Kind = ExchangeBounds::Held::Kind;
  return {share_, exchange_.holds_request() ? Kind::kRequest : Kind::kReply,
          exchange_.held_bytes()};
}

std::optional<Exchange::Response> GuardedExchange::TakeResponse() {
  std::optional<Exchange::Response> response = exchange_.TakeResponse();
  // From now on it is not replaced.
  if (replays_ && response.has_value()) Count(ExchangeResult::kReplayed);
  return response;
}

std::optional<GuardedExchange::Task> GuardedExchange::TakeTask() {
  if (tasks_.empty()) return std::nullopt;
  Task task = std::move(tasks_.front());
  tasks_.erase(tasks_.begin());
  return task;
}

}  // namespace idempotency::internal
