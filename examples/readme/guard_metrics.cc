// docs/going_live.md: the events of a guard as metrics of the guarded process.
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <string>

#include "absl/status/status.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/server_guard/guard_hooks.h"
#include "grpc_idempotency/server_guard/server_guard.h"

namespace {

std::string NameOf(idempotency::VerdictEvent::Verdict verdict) {
  using Verdict = idempotency::VerdictEvent::Verdict;
  switch (verdict) {
    case Verdict::kReserved:
      return "reserved";
    case Verdict::kReplay:
      return "replay";
    case Verdict::kInFlight:
      return "in_flight";
    case Verdict::kMismatch:
      return "mismatch";
    case Verdict::kOutcomeUnknown:
      return "outcome_unknown";
    case Verdict::kExpired:
      return "expired";
    case Verdict::kNone:
      break;
  }
  return "none";
}

std::string NameOf(idempotency::Disposition disposition) {
  using Disposition = idempotency::Disposition;
  switch (disposition) {
    case Disposition::kComplete:
      return "complete";
    case Disposition::kRelease:
      return "release";
    case Disposition::kReleaseUnknown:
      return "release_unknown";
    case Disposition::kLetLapse:
      return "let_lapse";
    case Disposition::kReleaseLater:
      break;
  }
  return "release_later";
}

// The reason of the catalogue, or the code of a status without one.
std::string ReasonOf(const absl::Status& status) {
  const auto reason = idempotency::ReasonOf(status);
  return reason.has_value() ? std::string(idempotency::ReasonName(*reason))
                            : absl::StatusCodeToString(status.code());
}

}  // namespace

// [going_live:metrics]
// It outlives the guard: GuardOptions::hooks = metrics.Hooks().
class GuardMetrics {
 public:
  explicit GuardMetrics(prometheus::Registry& registry)
      : verdicts_(prometheus::BuildCounter().Name("guard_verdicts_total").Register(registry)),
        outcomes_(prometheus::BuildCounter().Name("guard_outcomes_total").Register(registry)),
        lost_(prometheus::BuildCounter().Name("guard_lost_total").Register(registry)),
        failed_open_(prometheus::BuildGauge().Name("guard_failed_open").Register(registry)) {}

  idempotency::GuardHooks Hooks() {
    idempotency::GuardHooks hooks;
    hooks.on_verdict = [this](const idempotency::VerdictEvent& event) {
      verdicts_
          .Add({{"operation", event.operation},
                {"verdict", NameOf(event.verdict)},
                {"reason", ReasonOf(event.status)}})
          .Increment();
    };
    hooks.on_recorded = [this](const idempotency::RecordedEvent& event) {
      outcomes_
          .Add({{"operation", event.operation},
                {"disposition", NameOf(event.disposition)},
                {"outcome", ReasonOf(event.outcome)}})
          .Increment();
    };
    hooks.on_lost = [this](const idempotency::LostEvent& event) {
      lost_.Add({{"operation", event.operation}}).Increment();
    };
    return hooks;
  }

  // Call it every few seconds: the verdict of such a call is "none", as of one that is refused.
  void Read(const idempotency::ServerGuard& guard) {
    failed_open_.Add({}).Set(static_cast<double>(guard.calls_failed_open()));
  }

 private:
  prometheus::Family<prometheus::Counter>& verdicts_;
  prometheus::Family<prometheus::Counter>& outcomes_;
  prometheus::Family<prometheus::Counter>& lost_;
  prometheus::Family<prometheus::Gauge>& failed_open_;
};
// [going_live:end]
