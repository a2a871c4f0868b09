#include "interceptors/server/execution/call_span.h"

#include <utility>

#include "absl/time/clock.h"

#include "core/absl_view.h"
#include "grpc_idempotency/errors.h"
#include "interceptors/server/request/application_call.h"
#include "tracing/trace_context.h"

namespace idempotency::internal {

std::optional<CallSpan> CallSpan::Start(const GuardedOperation& operation, std::string_view name,
                                        std::string_view traceparent) {
  if (operation.options.tracer == nullptr || traceparent.empty()) return std::nullopt;
  const std::optional<TraceContext> caller = ParseTraceparent(traceparent);
  if (!caller.has_value() || !caller->sampled) return std::nullopt;
  CallSpan started;
  started.span_.name = std::string(name);
  started.span_.trace_id = caller->trace_id;
  started.span_.parent_span_id = caller->span_id;
  started.span_.span_id = NewSpanId();
  started.span_.start = absl::Now();
  started.Set("idempotency.operation", operation.name);
  return started;
}

std::string CallSpan::traceparent() const {
  return FormatTraceparent({span_.trace_id, span_.span_id, true});
}

void CallSpan::Set(std::string_view name, std::string_view value) {
  if (!value.empty()) span_.attributes.emplace_back(name, std::string(value));
}

void CallSpan::Set(std::string_view name, std::int64_t value) {
  if (value != 0) span_.attributes.emplace_back(name, value);
}

void CallSpan::Link(std::string_view traceparent) {
  const std::optional<TraceContext> target = ParseTraceparent(traceparent);
  if (target.has_value()) span_.links.push_back({target->trace_id, target->span_id});
}

void CallSpan::End(const GuardedOperation& operation, const absl::Status& status) && {
  if (const std::optional<Reason> reason = ReasonOf(status); reason.has_value()) {
    Set("error.type", ReasonName(*reason));
  }
  span_.status = status;
  span_.end = absl::Now();
  RunApplication(*operation.log, operation.name, "the tracer",
                 [&] { operation.options.tracer->OnSpanEnd(std::move(span_)); });
}

}  // namespace idempotency::internal
