// Messages of a proxy to the external processor, in any order. The input is a list of steps: a byte
// that names one, and its bytes.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "idempotency/v1/record.pb.h"
#include "interceptors/ext_proc/front/grpc_front.h"
#include "interceptors/ext_proc/front/http_front.h"
#include "interceptors/ext_proc/service/guarded_exchange.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

constexpr std::size_t kMaxRequestBytes = 4096;

class NoEvents final : public ProcessorEvents {
 public:
  void Ended(ExchangeResult /*result*/) override {}
  void Misconfigured(absl::string_view /*what*/) override {}
  void Holds(std::size_t /*exchanges*/, std::size_t /*bytes*/) override {}
};

// Every route requires a key.
const std::shared_ptr<const ProcessorSettings>& Settings() {
  static const auto* const settings = [] {
    ProcessorConfig config;
    config.name_space = "fuzz";
    config.scope = SharedScopeName{"everyone"};
    config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
    config.grpc_methods.push_back({"*/*", std::nullopt});
    config.http_routes.push_back({{"POST"}, "/{any}", std::nullopt});
    config.max_request_bytes = kMaxRequestBytes;
    return new std::shared_ptr<const ProcessorSettings>(
        ProcessorSettings::Make(std::move(config)).value());
  }();
  return *settings;
}

// Without a grant nothing may leave for the upstream, whatever else happens.
void Drain(GuardedExchange& exchange, int& admissions) {
  while (const std::optional<GuardedExchange::Task> task = exchange.TakeTask()) {
    Require(std::holds_alternative<GuardedExchange::Admit>(*task), "nothing to settle is left");
    ++admissions;
  }
  while (const std::optional<Exchange::Response> response = exchange.TakeResponse()) {
    Require(!response->has_request_headers() && !response->has_request_body() &&
                !response->has_request_trailers(),
            "nothing is forwarded without a reservation");
  }
  Require(admissions <= 1, "a request is admitted once");
  Require(exchange.held().bytes <= 4 * kMaxRequestBytes + (1 << 17), "what is held is bounded");
}

void Decide(Input& input, GuardedExchange& exchange, int& admissions) {
  if (admissions == 0) return;
  v1::Reply reply;
  if (reply.ParseFromString(std::string(input.Block()))) {
    exchange.OnDecision(Admission::Replayed{SentReply(std::move(reply))});
  } else {
    exchange.OnDecision(Admission::Refused{absl::UnavailableError("no verdict"), "", true});
  }
}

void Translate(const Exchange::Request& message) {
  HttpMessage response;
  response.headers = HeaderList(message.response_headers().headers());
  response.body = message.response_body().body();
  if (message.has_response_trailers()) {
    response.trailers = HeaderList(message.response_trailers().trailers());
  }
  const GrpcFront grpc;
  const v1::Reply captured = grpc.Capture(response, true);
  Require(captured.code() >= 0 && captured.code() <= 16, "a captured code is one of gRPC's");
  const v1::Reply again = grpc.Capture(grpc.Restore(captured), true);
  Require(again.body() == captured.body() && again.code() == captured.code() &&
              again.message() == captured.message(),
          "a reply that was restored is the captured one");
  const HttpFront http;
  const v1::Reply stored = http.Capture(response, true);
  const HttpMessage restored = http.Restore(stored);
  // Only the status of a compressed one is kept.
  const bool kept = stored.content() != v1::REPLY_CONTENT_STATUS_ONLY;
  const bool has_status = kept && stored.initial_metadata(0).value() != "0";
  Require(!has_status || restored.body == response.body, "a response of HTTP is restored");
}

}  // namespace

void ExternalProcessorMessages(std::string_view bytes) {
  static NoEvents events;
  ExchangeBounds bounds({}, events);
  Input input(bytes);
  GuardedExchange exchange(Settings(), bounds, events);
  int admissions = 0;
  while (!input.empty()) {
    switch (input.Byte() % 6) {
      case 0:
      case 1: {
        Exchange::Request message;
        if (!message.ParseFromString(std::string(input.Block()))) break;
        Translate(message);
        exchange.OnMessage(std::move(message));
        break;
      }
      case 2:
        Decide(input, exchange, admissions);
        break;
      case 3:
        exchange.OnNoRoom();
        break;
      case 4:
        exchange.Refuse(absl::UnavailableError("stopping"));
        break;
      default:
        exchange.OnEndOfStream();
        Require(exchange.end().has_value(), "the stream ends with its client's side");
        break;
    }
    Drain(exchange, admissions);
  }
  exchange.OnEndOfStream();
  Require(exchange.end().has_value(), "every stream ends");
}

}  // namespace idempotency::internal::fuzz
