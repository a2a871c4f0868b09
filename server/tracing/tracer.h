#ifndef IDEMPOTENCY_SERVER_TRACING_TRACER_H_
#define IDEMPOTENCY_SERVER_TRACING_TRACER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"

#include "server/tracing/trace_context.h"

namespace idempotency::internal {

// One operation of a trace. No keys, scopes, tokens, requests or replies: a record appears by its
// id.
struct Span {
  TraceContext parent;
  SpanId id{};
  std::string name;
  absl::Time start;
  absl::Time end;
  // Names as in OpenTelemetry's semantic conventions, where there are some.
  std::vector<std::pair<std::string, std::variant<std::string, std::int64_t, bool>>> attributes;
  // Of a replay: the attempt that ran first.
  std::optional<TraceContext> link;
  bool failed = false;
};

// Takes the spans of sampled traces. An implementation over OpenTelemetry's SDK has this interface
// too.
class Tracer {
 public:
  Tracer() = default;
  virtual ~Tracer() = default;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // Never blocks, and may drop spans. Thread-safe.
  virtual void Record(Span span) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TRACING_TRACER_H_
