#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_GUARDED_EXCHANGE_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_GUARDED_EXCHANGE_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/ext_proc/exchange/exchange.h"
#include "interceptors/ext_proc/front/front.h"
#include "interceptors/ext_proc/service/exchange_bounds.h"
#include "interceptors/ext_proc/service/processor_events.h"
#include "interceptors/ext_proc/service/processor_settings.h"
#include "interceptors/server/admission/admission.h"
#include "interceptors/server/execution/settlement.h"

namespace idempotency::internal {

// One exchange under the guard: requests a reservation for its request, forwards it, records its
// reply, and releases that. It starts nothing itself: its owner performs the tasks that it gives,
// and passes their results in. Thread-compatible.
//
// Its promise: a reply is released only when it is recorded, or when it is known that nothing of
// the upstream's must be. Every end before the exchange is over is an error.
class GuardedExchange {
 public:
  // Request a reservation, and pass the decision to OnDecision().
  struct Admit {
    GuardedRoute route;
    std::shared_ptr<v1::ReserveRequest> request;
    // The caller's; infinite if it has none.
    absl::Duration timeout = absl::InfiniteDuration();
  };
  // Settle it, and pass the outcome to OnSettled().
  struct Settle {
    std::shared_ptr<LiveExecution> execution;
    v1::Reply reply;
    // The reason of a release; "": the reply's status.
    std::string reason;
  };
  // Nothing happened: release it, and pass the outcome to OnSettled().
  struct ReleaseWithoutEffect {
    std::shared_ptr<LiveExecution> execution;
    std::string reason;
  };
  using Task = std::variant<Admit, Settle, ReleaseWithoutEffect>;

  // `bounds` and `events` outlive it. It holds no place of `bounds`: its owner does.
  GuardedExchange(std::shared_ptr<const ProcessorSettings> settings, ExchangeBounds& bounds,
                  ProcessorEvents& events);

  void OnMessage(Exchange::Request message);
  // Bytes that are not a message.
  void OnUnreadableMessage();
  void OnDecision(Admission::Decision decision);
  void OnSettled(const Settlement::Outcome& outcome);
  // The proxy has ended its side, or is gone.
  void OnEndOfStream();
  // Refuses what has not been forwarded, with `why`.
  void Refuse(const absl::Status& why);
  // There is no room for what is held: refuses the request, or stops holding the reply.
  void OnNoRoom();

  // The next task, and the next response; each is returned once.
  std::optional<Task> TakeTask();
  std::optional<Exchange::Response> TakeResponse();
  // How the stream ends, once every response is sent. nullopt: it goes on.
  const std::optional<absl::Status>& end() const { return end_; }
  ExchangeBounds::Held held() const;
  std::size_t response_bytes() const { return exchange_.response_bytes(); }
  const ProcessorSettings& settings() const { return *settings_; }
  const std::shared_ptr<const ProcessorSettings>& shared_settings() const { return settings_; }
  // Messages that arrive are held until they are decided on.
  bool holds_messages() const { return !exchange_.passes_on() && !exchange_.over(); }
  // The proxy's configuration lacks something without which nothing can be recorded.
  bool proxy_misconfigured() const { return proxy_misconfigured_; }

 private:
  enum class Settling {
    kNo,
    // The upstream's reply, which is recorded or replaced by an error.
    kReply,
    // A reply of Envoy's, which is released in any case.
    kProxysReply,
    // A reply of unknown origin: an error takes its place.
    kUnstated,
    // No client waits for the outcome.
    kNothing,
  };

  void Handle(Exchange::Event event);
  void OnRequestHeaders();
  // Decides with the headers alone. Sets front_ and route_.
  absl::Status Identify();
  // REQUEST_INVALID if a request without a route would have one but for what its caller chose, the
  // content type or another spelling: no entry is missing.
  absl::Status CheckSpelling(std::string_view method, std::string_view path) const;
  // False: there is no place for it.
  bool EnterShare(const std::string& share);
  void OnRequest();
  absl::StatusOr<Admit> MakeAdmit();
  // For the request's message once it is parsed.
  absl::StatusOr<ExchangeBounds::Share> RoomForFields();
  void Forward(std::shared_ptr<LiveExecution> execution);
  void OnReplyWithoutRequest();
  void OnReply();
  void SettleUnknown(Settling settling, const std::string& reason);
  void SendReply(const Settlement::Outcome& outcome);
  void Reject(const absl::Status& why, const std::string& record_id = "");
  // By a bound of this processor.
  void RejectOverloaded(const absl::Status& why);
  bool CanRefuse() const;
  void Replay(const v1::Reply& reply);
  void Break(const absl::Status& why);
  void LeaveOpen(const std::string& reason);
  void Count(ExchangeResult result);
  // Before its Reject(). kUnconfigured or kUnscoped.
  void CountUnconfigured(ExchangeResult result, const absl::Status& why);

  const std::shared_ptr<const ProcessorSettings> settings_;
  ExchangeBounds& bounds_;
  ProcessorEvents& events_;
  Exchange exchange_;
  const Front* front_ = nullptr;
  bool is_grpc_ = false;
  const GuardedRoute* route_ = nullptr;
  std::string operation_;
  std::string scope_;
  // The scope in ExchangeBounds: another one than scope_ if that is a combined one.
  std::string share_;
  // Among those of the share, or of calls that are not guarded.
  std::optional<ExchangeBounds::Place> place_;
  // Between Admit and its decision.
  bool deciding_ = false;
  bool counted_ = false;
  // The answer is a replay, which another answer may replace.
  bool replays_ = false;
  bool proxy_misconfigured_ = false;
  Settling settling_ = Settling::kNo;
  std::shared_ptr<LiveExecution> execution_;
  std::vector<Task> tasks_;
  std::optional<absl::Status> end_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_GUARDED_EXCHANGE_H_
