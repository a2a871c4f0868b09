#include "idempotencyd/processor_metrics.h"

#include <optional>

#include "server/observability/log.h"

namespace idempotency::internal {
namespace {

const char* NameOf(ExchangeResult result) {
  switch (result) {
    case ExchangeResult::kForwarded:
      return "forwarded";
    case ExchangeResult::kReplayed:
      return "replayed";
    case ExchangeResult::kRefused:
      return "refused";
    case ExchangeResult::kUnconfigured:
      return "unconfigured";
    case ExchangeResult::kUnscoped:
      return "unscoped";
    case ExchangeResult::kOverloaded:
      return "overloaded";
    case ExchangeResult::kPassed:
      return "passed";
    case ExchangeResult::kUnknown:
      return "unknown";
    case ExchangeResult::kNotRecorded:
      return "not_recorded";
    case ExchangeResult::kNotSent:
      return "not_sent";
    case ExchangeResult::kBroken:
      return "broken";
  }
  return "";
}

prometheus::Counter& MisconfiguredCounter(prometheus::Registry& registry) {
  return prometheus::BuildCounter()
      .Name("idempotency_ext_proc_misconfigured_total")
      .Help(
          "Exchanges that were refused, or not recorded, until an operator corrects a proxy, or "
          "external_processor.proxies.")
      .Register(registry)
      .Add({});
}

prometheus::Gauge& Gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

ProcessorMetrics::ProcessorMetrics(prometheus::Registry& registry)
    : misconfigured_(MisconfiguredCounter(registry)),
      exchanges_(Gauge(registry, "idempotency_ext_proc_exchanges",
                       "Exchanges of the external processor in progress.")),
      held_bytes_(Gauge(registry, "idempotency_ext_proc_held_bytes",
                        "Bytes of requests and replies that the external processor holds.")) {
  auto& exchanges = prometheus::BuildCounter()
                        .Name("idempotency_ext_proc_exchanges_total")
                        .Help("Exchanges of the external processor, by their result.")
                        .Register(registry);
  for (std::size_t i = 0; i < kResults; ++i) {
    ended_[i] = &exchanges.Add({{"result", NameOf(static_cast<ExchangeResult>(i))}});
  }
}

void ProcessorMetrics::Ended(ExchangeResult result) {
  ended_[static_cast<std::size_t>(result)]->Increment();
}

void ProcessorMetrics::Misconfigured(absl::string_view what) {
  misconfigured_.Increment();
  const std::optional<std::int64_t> left_out = Admit(what);
  if (!left_out.has_value()) return;
  Log(LogLevel::kError, "a proxy is not configured for the external processor",
      {{"error", what}, {"omitted", *left_out}});
}

void ProcessorMetrics::RefusedUnconfigured(absl::string_view what) {
  const std::optional<std::int64_t> left_out = Admit(what);
  if (!left_out.has_value()) return;
  Log(LogLevel::kWarn, "a request without an entry or a scope was refused",
      {{"error", what}, {"omitted", *left_out}});
}

std::optional<std::int64_t> ProcessorMetrics::Admit(absl::string_view what) {
  LogThrottle* throttle = &others_;
  {
    MutexLock lock(mutex_);
    const auto found = throttles_.find(what);
    if (found != throttles_.end()) {
      throttle = &found->second;
    } else if (throttles_.size() < kMaxTexts) {
      throttle = &throttles_[what];
    }
  }
  return throttle->Admit();
}

void ProcessorMetrics::Holds(std::size_t exchanges, std::size_t bytes) {
  exchanges_.Set(static_cast<double>(exchanges));
  held_bytes_.Set(static_cast<double>(bytes));
}

}  // namespace idempotency::internal
