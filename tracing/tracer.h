#ifndef IDEMPOTENCY_TRACING_TRACER_H_
#define IDEMPOTENCY_TRACING_TRACER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"

#include "tracing/trace_context.h"

namespace idempotency::internal {

// As OpenTelemetry's.
enum class SpanKind { kInternal, kServer, kClient };

// Another span, of this or another trace.
struct SpanLink {
  TraceContext target;
  // The value of the link's attribute `idempotency.link`: "first_attempt", of a replay, the attempt
  // that ran first; "batch", another operation of the same store call. A literal.
  std::string_view relation;
};

// One operation of a trace. No keys, scopes, tokens, requests or replies: a record appears by its
// id.
// Links of the span of a store call, to its other sampled operations: as OpenTelemetry's SDKs.
inline constexpr std::size_t kMaxSpanLinks = 128;

struct Span {
  TraceContext parent;
  SpanId id{};
  SpanKind kind = SpanKind::kServer;
  std::string name;
  absl::Time start;
  absl::Time end;
  // Names as in OpenTelemetry's semantic conventions, where there are some.
  std::vector<std::pair<std::string, std::variant<std::string, std::int64_t, bool>>> attributes;
  // At most kMaxSpanLinks.
  std::vector<SpanLink> links;
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

#endif  // IDEMPOTENCY_TRACING_TRACER_H_
