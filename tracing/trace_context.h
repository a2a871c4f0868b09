#ifndef IDEMPOTENCY_SERVER_TRACING_TRACE_CONTEXT_H_
#define IDEMPOTENCY_SERVER_TRACING_TRACE_CONTEXT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace idempotency::internal {

using TraceId = std::array<std::uint8_t, 16>;
using SpanId = std::array<std::uint8_t, 8>;

// A place in a trace: W3C Trace Context, https://www.w3.org/TR/trace-context/.
struct TraceContext {
  TraceId trace_id{};
  SpanId span_id{};
  bool sampled = false;
};

// The name of the header, of the metadata entry, and of the label that stores the first attempt's
// with the record.
inline constexpr std::string_view kTraceparentName = "traceparent";

// nullopt for anything but a valid `traceparent`, also of a later version. Thread-safe.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

// Formats a context as version 00.
std::string FormatTraceparent(const TraceContext& context);

// A random id, not all zero. Thread-safe.
SpanId NewSpanId();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TRACING_TRACE_CONTEXT_H_
