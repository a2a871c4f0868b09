#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_TRACER_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_TRACER_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace idempotency {

// A finished span of the guard: a value, which a tracer may keep. It contains no keys, scopes,
// tokens, requests or replies; a record appears by its id.
struct GuardSpan {
  using TraceId = std::array<std::uint8_t, 16>;
  using SpanId = std::array<std::uint8_t, 8>;
  struct Link {
    TraceId trace_id{};
    SpanId span_id{};
  };

  // "idempotency admission": from the request for a reservation to its verdict. The daemon's span
  // is its child.
  // "idempotency recording": from the handler's answer until its outcome is settled.
  std::string name;
  TraceId trace_id{};
  SpanId span_id{};
  // The span of the caller, from the call's `traceparent`.
  SpanId parent_span_id{};
  // By this machine's clock.
  absl::Time start;
  absl::Time end;
  // `idempotency.operation`, `idempotency.record_id`, `idempotency.attempt`, and
  // `idempotency.verdict` or `idempotency.disposition`; `error.type` has the reason of an error.
  std::vector<std::pair<std::string, std::variant<std::string, std::int64_t, bool>>> attributes;
  // On a replay, the span of the attempt that ran first.
  std::vector<Link> links;
  // OK; or why the call does not run, or its outcome is not recorded.
  absl::Status status;
};

// Receives the guard's spans, for the application's own tracing. An adapter that sends them by OTLP
// is in grpc_idempotency/guard_tracing/otlp_guard_tracer.h.
//
// There is a span only for calls whose caller's W3C `traceparent` is sampled: the guard starts no
// traces, and other calls cost nothing. Without a tracer (GuardOptions::tracer) there is none.
class GuardTracer {
 public:
  GuardTracer() = default;
  virtual ~GuardTracer() = default;
  GuardTracer(const GuardTracer&) = delete;
  GuardTracer& operator=(const GuardTracer&) = delete;

  // Called once for each span, before the guard acts on what ended it, on the guard's threads and
  // on gRPC's, several at once: it must be thread-safe and must not block. A span may be dropped;
  // nothing depends on it. An exception is logged and ignored; it changes nothing for the call.
  virtual void OnSpanEnd(GuardSpan span) = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_TRACER_H_
